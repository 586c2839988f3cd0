import { JOB, JOB_KINDS, canBeOwner } from "@muster/names";
import { expect, it } from "vitest";
import { buildOwnerId } from "./build-units.ts";
import { KINDS } from "./kinds.ts";

const JOB_OF_TEAM = { namespace: "team-a", name: "train.v2", uid: "0a1b2c3d-4e5f-6789-abcd-ef0123456789" };

it("are those whose pods the watcher counts for their jobs in every namespace", () => {
  const named = [...JOB_KINDS].flatMap(([group, kinds]) => kinds.map((kind) => `${group}/${kind}`));
  expect(KINDS.map(({ group, kind }) => `${group}/${kind}`).toSorted()).toEqual(named.toSorted());
});

it.each(KINDS)("give pods an owner that their controller confirms: $kind", ({ group, version, kind }) => {
  const owner = { kind: JOB, id: buildOwnerId(JOB_OF_TEAM) };
  const controlledBy = (uid: string) => ({ uid: "p", namespace: "team-a", controller: { apiVersion, kind, uid } });
  const apiVersion = `${group}/${version}`;
  expect(canBeOwner(owner, controlledBy(JOB_OF_TEAM.uid))).toBe(true);
  expect(canBeOwner(owner, controlledBy("1a1b2c3d-4e5f-6789-abcd-ef0123456789"))).toBe(false);
});
