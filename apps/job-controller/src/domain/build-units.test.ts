import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { restrictToGrant, buildMemberUnitId, buildOwnerId, getUnitOwnerId } from "./build-units.ts";

const name = fc.stringMatching(/^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$/);
const type = fc.oneof(fc.stringMatching(/^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$/), fc.constant("preprocessor"));

it("gives every unit a valid id that identifies its job", () => {
  fc.assert(
    fc.property(name, fc.uuid(), type, fc.nat(999), (job, uid, replicaType, index) => {
      const owner = buildOwnerId({ name: job, uid });
      const unit = buildMemberUnitId(owner, `${replicaType}-${index}`);
      for (const id of [owner, unit]) {
        expect(id).toMatch(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
        expect(getUnitOwnerId(id)).toBe(owner);
      }
    }),
  );
});

it("gives different ids to two jobs of one name, and to two members with long names", () => {
  const uids = ["0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "0a1b2c3d-4e60-6071-8293-a4b5c6d7e8f9"];
  expect(new Set(uids.map((uid) => buildOwnerId({ name: "train", uid }))).size).toBe(2);
  const long = "a".repeat(40);
  const ids = Array.from({ length: 1000 }, (_, index) =>
    buildMemberUnitId(buildOwnerId({ name: long, uid: "0".repeat(36) }), `${long}-${index}`),
  );
  expect(new Set(ids).size).toBe(1000);
});

describe("a member that is added to a gang with a choice of pools", () => {
  const granted = { id: "gang", state: "granted", nodes: new Map([["worker-0", "n1"]]) } as const;

  it.each([
    ["worker-0", [["worker-0", "h100"]], { pool: "h100" }],
    ["worker-7", [["worker-0", "h100"]], { pool: "h100" }],
    ["driver-0", [["worker-0", "h100"]], { pool: "a100", otherPools: ["h100"] }],
    ["worker-0", [], { pool: "a100", otherPools: ["h100"] }],
  ] as const)("%s is in the pool of its type, with %s", (component, pools, accepted) => {
    const need = { component, pool: "a100", otherPools: ["h100"] };
    expect(restrictToGrant({ ...granted, pools: new Map(pools) }, need)).toEqual({ component, ...accepted });
  });
});
