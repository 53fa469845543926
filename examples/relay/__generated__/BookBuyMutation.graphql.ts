/**
 * @generated SignedSource<<c2c3fd62635e567d78fc1f3cf25eec34>>
 * @lightSyntaxTransform
 */

/* tslint:disable */
/* eslint-disable */
// @ts-nocheck

import type { ConcreteRequest } from 'relay-runtime';
export type BookBuyMutation$variables = {
  key: string;
  name: string;
};
export type BookBuyMutation$data = {
  readonly increment: {
    readonly value: number;
    readonly valueIn: number | null | undefined;
  } | null | undefined;
};
export type BookBuyMutation = {
  response: BookBuyMutation$data;
  variables: BookBuyMutation$variables;
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
v2 = [
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
      {
        "alias": null,
        "args": null,
        "kind": "ScalarField",
        "name": "value",
        "storageKey": null
      },
      {
        "alias": null,
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
    "name": "BookBuyMutation",
    "selections": (v2/*:: as any*/),
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
    "name": "BookBuyMutation",
    "selections": (v2/*:: as any*/)
  },
  "params": {
    "cacheID": "81e823f4a6d3331f44cb9e4290f29eac",
    "id": null,
    "metadata": {},
    "name": "BookBuyMutation",
    "operationKind": "mutation",
    "text": "mutation BookBuyMutation(\n  $name: String!\n  $key: String!\n) {\n  increment(name: $name, namespace: \"booksales\", idempotencyKey: $key) {\n    value\n    valueIn(period: MONTH)\n  }\n}\n"
  }
};
})();

(node as any).hash = "3785348d5f2ef10951064c3e1b382bd0";

export default node;
