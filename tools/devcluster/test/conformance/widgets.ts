import { until } from "@muster/testkit";
import { getList, getText } from "../../src/apiserver/json.ts";
import type { Answer, Api } from "./api.ts";

export const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

export type Definition = {
  readonly group: string;
  readonly plural: string;
  readonly kind: string;
  readonly schema: object;
  readonly scope?: string;
  readonly names?: object;
  /** The fields of version v1, beside its schema. */
  readonly version?: object;
};

/** A CustomResourceDefinition with one version, v1, and the given parts. */
export function definition({ group, plural, kind, schema, scope, names, version }: Definition): object {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: scope ?? "Namespaced",
      names: { plural, kind, ...names },
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema }, ...version }],
    },
  };
}

/** An object schema whose spec has these fields. */
export function withSpec(properties: object, more: object = {}): object {
  return { type: "object", properties: { spec: { type: "object", properties, ...more } } };
}

/** Creates a definition and waits until its objects can be created. */
export async function install(api: Api, given: Definition): Promise<Answer> {
  const made = await api.post(DEFINITIONS, definition(given));
  if (made.code !== 201) throw new Error(made.text);
  await until(`${given.plural} are served`, async () => {
    const list = await api.get(`/apis/${given.group}/v1/${given.plural}`);
    return list.code === 200;
  });
  return made;
}

export function conditionIn(object: Answer["body"], type: string): string {
  const found = getList(object, "status", "conditions").find((one) => getText(one, "type") === type);
  return found === undefined ? "" : `${getText(found, "status")} ${getText(found, "reason")}`;
}
