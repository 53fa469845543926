/**
 * @generated SignedSource<<f6c9d78af6d013bc9b95b74b0bb6e84a>>
 * @lightSyntaxTransform
 */

/* tslint:disable */
/* eslint-disable */
// @ts-nocheck

import type { ConcreteRequest } from 'relay-runtime';
export type relayBuyMutation$variables = {
  key: string;
  name: string;
};
export type relayBuyMutation$data = {
  readonly increment: {
    readonly counter: {
      readonly id: string;
      readonly revision: number;
      readonly thisMonth: number | null | undefined;
      readonly value: number;
    } | null | undefined;
    readonly thisMonth: number | null | undefined;
    readonly value: number;
  } | null | undefined;
};
export type relayBuyMutation = {
  response: relayBuyMutation$data;
  variables: relayBuyMutation$variables;
};

const node: ConcreteRequest = (function(){
var v0 = {
  "defaultValue": null,
  "kind": "LocalArgument",
  "name": "key"
},
v1 = {
  "defaultValue": null,
  "kind": "LocalArgument",
  "name": "name"
},
v2 = {
  "alias": null,
  "args": null,
  "kind": "ScalarField",
  "name": "value",
  "storageKey": null
},
v3 = {
  "alias": "thisMonth",
  "args": [
    {
      "kind": "Literal",
      "name": "period",
      "value": "MONTH"
    }
  ],
  "kind": "ScalarField",
  "name": "valueIn",
  "storageKey": "valueIn(period:\"MONTH\")"
},
v4 = [
  {
    "alias": null,
    "args": [
      {
        "kind": "Variable",
        "name": "idempotencyKey",
        "variableName": "key"
      },
      {
        "kind": "Variable",
        "name": "name",
        "variableName": "name"
      },
      {
        "kind": "Literal",
        "name": "namespace",
        "value": "booksales"
      }
    ],
    "concreteType": "CounterChange",
    "kind": "LinkedField",
    "name": "increment",
    "plural": false,
    "selections": [
      (v2/*:: as any*/),
      (v3/*:: as any*/),
      {
        "alias": null,
        "args": null,
        "concreteType": "Counter",
        "kind": "LinkedField",
        "name": "counter",
        "plural": false,
        "selections": [
          {
            "alias": null,
            "args": null,
            "kind": "ScalarField",
            "name": "id",
            "storageKey": null
          },
          {
            "alias": null,
            "args": null,
            "kind": "ScalarField",
            "name": "revision",
            "storageKey": null
          },
          (v2/*:: as any*/),
          (v3/*:: as any*/)
        ],
        "storageKey": null
      }
    ],
    "storageKey": null
  }
];
return {
  "fragment": {
    "argumentDefinitions": [
      (v0/*:: as any*/),
      (v1/*:: as any*/)
    ],
    "kind": "Fragment",
    "metadata": null,
    "name": "relayBuyMutation",
    "selections": (v4/*:: as any*/),
    "type": "Mutation",
    "abstractKey": null
  },
  "kind": "Request",
  "operation": {
    "argumentDefinitions": [
      (v1/*:: as any*/),
      (v0/*:: as any*/)
    ],
    "kind": "Operation",
    "name": "relayBuyMutation",
    "selections": (v4/*:: as any*/)
  },
  "params": {
    "cacheID": "2f4cb4d475eddb05259fd7d88b57f036",
    "id": null,
    "metadata": {},
    "name": "relayBuyMutation",
    "operationKind": "mutation",
    "text": "mutation relayBuyMutation(\n  $name: String!\n  $key: String!\n) {\n  increment(name: $name, namespace: \"booksales\", idempotencyKey: $key) {\n    value\n    thisMonth: valueIn(period: MONTH)\n    counter {\n      id\n      revision\n      value\n      thisMonth: valueIn(period: MONTH)\n    }\n  }\n}\n"
  }
};
})();

(node as any).hash = "d93b1ed34312c4abf267618676dcb29d";

export default node;
