import { expect, it } from "vitest";
import { DEFAULTS } from "../../test/manifests.ts";
import { JOB_KIND } from "../domain/kind-job.ts";
import { makeOwnWrites } from "./own-writes.ts";
import { readJob, type JobRow } from "./read-job.ts";

function at(resourceVersion: string, uid = "one"): JobRow {
  return readJob({ metadata: { name: "train", namespace: "default", uid, resourceVersion } }, JOB_KIND, DEFAULTS);
}

it("returns the own write until the cache has it, and never again", () => {
  const own = makeOwnWrites<JobRow>();
  const [older, written, newer] = [at("9"), at("10"), at("11")];
  expect(own.newest("key", older)).toBe(older);
  own.record("key", written);
  expect(own.newest("key", older)).toBe(written);
  expect(own.newest("key", newer)).toBe(newer);
  expect(own.newest("key", older)).toBe(older);
});

it("returns the cached row after a refused write: a restore of the store lowers versions", () => {
  const own = makeOwnWrites<JobRow>();
  const restored = at("5");
  own.record("key", at("100"));
  expect(own.newest("key", restored)).not.toBe(restored);
  own.forget("key");
  expect(own.newest("key", restored)).toBe(restored);
});

it("returns nothing of a deleted job whose name another job has", () => {
  const own = makeOwnWrites<JobRow>();
  own.record("key", at("10"));
  const other = at("2", "another");
  expect(own.newest("key", other)).toBe(other);
});
