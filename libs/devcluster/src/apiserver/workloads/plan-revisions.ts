import { type JsonObject, numberAt, objectAt, put, sameJson, textAt } from "../json.ts";
import { nameOf } from "../metadata.ts";
import { labelsOf } from "../selectors.ts";
import { controllerReference } from "./dependents.ts";
import { hashOf } from "./plan-deployment.ts";
import { type Revision, REVISION_LABEL } from "./plan-stateful-set.ts";

export type RevisionPlan = {
  readonly current: Revision;
  readonly update: Revision;
  /** The revision of the present template: one that is not there yet, or one that is the latest again. */
  readonly create: JsonObject | undefined;
  readonly write: JsonObject | undefined;
  /** Those that nobody needs, beyond what is kept for going back. */
  readonly remove: readonly JsonObject[];
};

/** Which template is new and which is still in use, by the revisions that the set owns. */
export function planRevisions(
  set: JsonObject,
  revisions: readonly JsonObject[],
  pods: readonly JsonObject[],
): RevisionPlan {
  const sorted = revisions.toSorted((one, other) => numberOf(one) - numberOf(other));
  const data = { spec: { template: { ...objectAt(set, "spec", "template"), $patch: "replace" } } };
  const last = sorted.at(-1);
  const found = sorted.findLast((revision) => sameJson(revision["data"], data));
  const number = (last === undefined ? 0 : numberOf(last)) + 1;
  const create = found === undefined ? buildRevision(set, data, number) : undefined;
  const write = found === undefined || found === last ? undefined : put(found, ["revision"], number);
  const update = toRevision(found ?? create ?? {});
  const known = sorted.find((revision) => nameOf(revision) === textAt(set, "status", "currentRevision"));
  const current = known === undefined ? update : toRevision(known);
  const used = new Set([current.name, update.name, ...pods.map((pod) => textAt(labelsOf(pod), REVISION_LABEL))]);
  const idle = sorted.filter((revision) => !used.has(nameOf(revision)));
  const kept = numberAt(set, "spec", "revisionHistoryLimit") ?? 10;
  return { current, update, create, write, remove: idle.slice(0, Math.max(0, idle.length - kept)) };
}

function buildRevision(set: JsonObject, data: JsonObject, revision: number): JsonObject {
  const hash = hashOf(data);
  return {
    apiVersion: "apps/v1",
    kind: "ControllerRevision",
    metadata: {
      name: `${nameOf(set)}-${hash}`,
      labels: { ...objectAt(set, "spec", "template", "metadata", "labels"), "controller.kubernetes.io/hash": hash },
      ownerReferences: [controllerReference(set)],
    },
    data,
    revision,
  };
}

function toRevision(revision: JsonObject): Revision {
  const template = put(objectAt(revision, "data", "spec", "template"), ["$patch"], undefined);
  return { name: nameOf(revision), template };
}

function numberOf(revision: JsonObject): number {
  return numberAt(revision, "revision") ?? 0;
}
