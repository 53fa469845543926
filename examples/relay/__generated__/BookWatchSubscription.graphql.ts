/**
 * @generated SignedSource<<ab4d19db3b9e83a516cb2e4ad454e491>>
 * @lightSyntaxTransform
 */

/* tslint:disable */
/* eslint-disable */
// @ts-nocheck

import type { ConcreteRequest } from 'relay-runtime';
export type BookWatchSubscription$variables = {
  name: string;
};
export type BookWatchSubscription$data = {
  readonly counters: ReadonlyArray<{
    readonly id: string;
    readonly value: number;
  } | null | undefined> | null | undefined;
};
export type BookWatchSubscription = {
  response: BookWatchSubscription$data;
  variables: BookWatchSubscription$variables;
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
        "items": [
          {
            "kind": "Variable",
            "name": "names.0",
            "variableName": "name"
          }
        ],
        "kind": "ListValue",
        "name": "names"
      },
      {
        "kind": "Literal",
        "name": "namespace",
        "value": "booksales"
      }
    ],
    "concreteType": "Counter",
    "kind": "LinkedField",
    "name": "counters",
    "plural": true,
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
        "name": "value",
        "storageKey": null
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
    "name": "BookWatchSubscription",
    "selections": (v1/*:: as any*/),
    "type": "Subscription",
    "abstractKey": null
  },
  "kind": "Request",
  "operation": {
    "argumentDefinitions": (v0/*:: as any*/),
    "kind": "Operation",
    "name": "BookWatchSubscription",
    "selections": (v1/*:: as any*/)
  },
  "params": {
    "cacheID": "b0d08cf45a6471bd5bbaaa2be861fd68",
    "id": null,
    "metadata": {},
    "name": "BookWatchSubscription",
    "operationKind": "subscription",
    "text": "subscription BookWatchSubscription(\n  $name: String!\n) {\n  counters(names: [$name], namespace: \"booksales\") {\n    id\n    value\n  }\n}\n"
  }
};
})();

(node as any).hash = "d350cb4b34f21718ca3ccdda3e96fefd";

export default node;
