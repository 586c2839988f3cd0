import type { JsonObject } from "../json.ts";
import { getText } from "../json.ts";
import { isDeleting, getNamespace, getName, formatTimestamp } from "../metadata.ts";
import type { Registry } from "../registry.ts";
import { buildBucketName, type Resource } from "../resource.ts";
import { FailureError } from "../status.ts";
import type { ObjectStore } from "../store.ts";
import { buildResource, getStoredVersion } from "./custom-resource.ts";
import { definitionResource } from "./definition-resource.ts";
import { type DefinitionStep, isTrue, planDefinitions } from "./plan-definitions.ts";

type Served = {
  readonly spec: unknown;
  readonly ends: boolean;
  readonly names: unknown;
  readonly resources: readonly Resource[];
};

/** Returns the resources of all established definitions. */
export function listCustomResources(store: ObjectStore): () => readonly Resource[] {
  let served = new Map<string, Served>();
  let seen: number | undefined;
  let all: readonly Resource[] = [];
  const bucket = buildBucketName(definitionResource);
  store.subscribe((name) => {
    if (name === bucket) seen = undefined;
  });
  return () => {
    if (seen !== undefined) return all;
    seen = store.revision();
    const definitions = store.entries(bucket).map(([, definition]) => definition);
    // The compiled form of a definition is kept while only its conditions change.
    const next = definitions.filter((one) => isTrue(one, "Established")).map((definition) => serve(definition, served));
    served = new Map(next);
    all = next.flatMap(([, { resources }]) => resources);
    return all;
  };
}

function serve(definition: JsonObject, before: ReadonlyMap<string, Served>): [name: string, served: Served] {
  const name = getName(definition);
  const known = before.get(name);
  const state = {
    spec: definition["spec"],
    names: JSON.stringify(definition["status"] ?? null).replace(/"conditions":\[.*?\],/, ""),
    ends: isDeleting(definition),
  };
  const isSame =
    known !== undefined && known.spec === state.spec && known.names === state.names && known.ends === state.ends;
  return [
    name,
    isSame
      ? known
      : { ...state, resources: getStoredVersion(definition)["served"] === true ? [buildResource(definition)] : [] },
  ];
}

export type DefinitionDeps = {
  readonly store: ObjectStore;
  readonly registry: Registry;
  readonly nowMs: () => number;
  readonly onDefect: (error: unknown) => void;
};

/** Accepts the names of definitions, and deletes the objects of definitions in deletion, soon after each relevant change. */
export function startDefinitions(deps: DefinitionDeps): Disposable {
  const { store, nowMs } = deps;
  const bucket = buildBucketName(definitionResource);
  let scheduled: NodeJS.Immediate | undefined;
  let ending = new Set<string>();
  const pass = (): void => {
    scheduled = undefined;
    try {
      const definitions = store.entries(bucket).map(([, definition]) => definition);
      ending = new Set(definitions.filter(isDeleting).map(bucketOfObjects));
      const count = (definition: JsonObject): number => store.entries(bucketOfObjects(definition)).length;
      for (const step of planDefinitions(definitions, count, formatTimestamp(nowMs()))) act(deps, step);
    } catch (error) {
      deps.onDefect(error);
    }
  };
  const schedule = (): void => {
    scheduled ??= setImmediate(pass);
  };
  const unsubscribe = store.subscribe((name, { after }) => {
    if (name === bucket || (after === undefined && ending.has(name))) schedule();
  });
  schedule();
  return {
    [Symbol.dispose]: () => {
      unsubscribe();
      if (scheduled !== undefined) clearImmediate(scheduled);
    },
  };
}

function bucketOfObjects(definition: JsonObject): string {
  return `${getText(definition, "spec", "group")}/${getText(definition, "status", "acceptedNames", "plural")}`;
}

function act({ store, registry }: DefinitionDeps, step: DefinitionStep): void {
  const { definition } = step;
  const target = { resource: definitionResource, namespace: "", name: getName(definition) };
  try {
    switch (step.kind) {
      case "report":
        registry.update(target, { subresource: "status", change: () => definition, dryRun: false });
        return;
      case "release":
        registry.update(target, { change: () => definition, dryRun: false });
        return;
      case "delete-objects": {
        const resource = buildResource(definition);
        for (const [, object] of store.entries(buildBucketName(resource))) {
          if (isDeleting(object)) continue;
          registry.delete({ resource, namespace: getNamespace(object), name: getName(object) }, {}, false);
        }
      }
    }
  } catch (error) {
    // Another write came first, and has triggered the next pass.
    if (!(error instanceof FailureError)) throw error;
  }
}
