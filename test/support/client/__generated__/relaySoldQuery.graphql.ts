/**
 * @generated SignedSource<<b89c0097b6bd9b38a9542daf7f262d8b>>
 * @lightSyntaxTransform
 */

/* tslint:disable */
/* eslint-disable */
// @ts-nocheck

import type { ConcreteRequest } from 'relay-runtime';
export type relaySoldQuery$variables = {
  name: string;
};
export type relaySoldQuery$data = {
  readonly counter: {
    readonly id: string;
    readonly revision: number;
    readonly thisMonth: number | null | undefined;
    readonly value: number;
  } | null | undefined;
};
export type relaySoldQuery = {
  response: relaySoldQuery$data;
  variables: relaySoldQuery$variables;
};

const node: ConcreteRequest = (function(){
var v0 = [
  {
    "defaultValue": null,
    "kind": "LocalArgument",
    "name": "name"
  }
],
v1 = [
  {
    "alias": null,
    "args": [
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
      {
        "alias": null,
        "args": null,
        "kind": "ScalarField",
        "name": "value",
        "storageKey": null
      },
      {
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
      }
    ],
    "storageKey": null
  }
];
return {
  "fragment": {
    "argumentDefinitions": (v0/*:: as any*/),
    "kind": "Fragment",
    "metadata": null,
    "name": "relaySoldQuery",
    "selections": (v1/*:: as any*/),
    "type": "Query",
    "abstractKey": null
  },
  "kind": "Request",
  "operation": {
    "argumentDefinitions": (v0/*:: as any*/),
    "kind": "Operation",
    "name": "relaySoldQuery",
    "selections": (v1/*:: as any*/)
  },
  "params": {
    "cacheID": "7696714fef21a08cda39bb64e47c1e3e",
    "id": null,
    "metadata": {},
    "name": "relaySoldQuery",
    "operationKind": "query",
    "text": "query relaySoldQuery(\n  $name: String!\n) {\n  counter(name: $name, namespace: \"booksales\") {\n    id\n    revision\n    value\n    thisMonth: valueIn(period: MONTH)\n  }\n}\n"
  }
};
})();

(node as any).hash = "143a1fcd8da982917f1004b05b0ee51b";

export default node;
