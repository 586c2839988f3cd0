import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { KIND, nameOf, testMember, type MemberOptions } from "../../test/member-world.ts";
import type { PodObject } from "./ownership.ts";
import { filterPods, slicePods, type Slices } from "./slice-pods.ts";

const KEYS = KIND.labelKeys;
const { replicaTypeLabelKey: TYPE, replicaIndexLabelKey: INDEX } = KEYS;

const pod = (index: string | undefined, name: string, more: MemberOptions = {}): PodObject =>
  testMember("mnist", "worker", 0, { name, labels: index === undefined ? {} : { [INDEX]: index }, ...more });

const readable = <M extends PodObject>({ slots, surplus, ignored }: Slices<M>) => ({
  slots: slots.map((member) => member && nameOf(member)),
  surplus: surplus.map(({ member, index, because }) => `${nameOf(member)} ${index} ${because}`),
  ignored: ignored.map(({ member, because }) => `${nameOf(member)} ${because}`),
});

describe("filterPods", () => {
  it("returns exactly the members of the type, in their order", () => {
    const members = [
      testMember("mnist", "worker", 1),
      testMember("mnist", "ps", 0),
      testMember("mnist", "worker", 0),
      testMember("mnist", "Worker", 2, { labels: { [TYPE]: "Worker" } }),
      testMember("mnist", "worker", 3, { labels: {} }),
    ];
    expect(filterPods(members, "worker", KEYS).map(nameOf)).toEqual(["mnist-worker-1", "mnist-worker-0"]);
  });
});

describe("slicePods", () => {
  it("leaves slots of missing pods empty, and requests no index beyond the replicas", () => {
    expect(readable(slicePods([pod("0", "a"), pod("3", "d")], 3, KEYS))).toEqual({
      slots: ["a", undefined, undefined],
      surplus: ["d 3 out-of-range"],
      ignored: [],
    });
    expect(slicePods([pod("3", "d")], 1, KEYS).slots).toEqual([undefined]);
    expect(slicePods([pod("0", "a")], 0, KEYS).slots).toEqual([]);
  });

  it("names the pods that fit no slot", () => {
    const pods = [pod("-1", "a"), pod("one", "b"), pod("1.5", "c"), pod("", "d"), pod(undefined, "e"), pod(" 1", "f")];
    expect(readable(slicePods(pods, 2, KEYS))).toEqual({
      slots: [undefined, undefined],
      surplus: [],
      ignored: [
        "a index-negative",
        "b index-not-a-number",
        "c index-not-a-number",
        "d index-not-a-number",
        "e index-missing",
        "f index-not-a-number",
      ],
    });
  });

  it.each<[string, string, MemberOptions, MemberOptions]>([
    ["the ready one", "b", { created: "2026-01-01T00:00:00Z" }, { created: "2026-01-02T00:00:00Z", ready: true }],
    ["the older of two that are ready", "b", { created: "2026-01-02T00:00:00Z", ready: true }, { ready: true }],
    ["the older of two that are not", "b", { created: "2026-01-02T00:00:00Z" }, {}],
    ["the one that has succeeded", "b", { ready: true }, { phase: "Succeeded", deleting: true }],
    ["the one that has not failed", "b", { phase: "Failed" }, { phase: "Pending", created: "2026-01-02T00:00:00Z" }],
    ["the failed one, whose end must be judged", "b", { ready: true, deleting: true }, { phase: "Failed" }],
    ["the first by name when nothing else reports them apart", "a", {}, {}],
  ])("keeps of two pods with one index %s", (_which, kept, a, b) => {
    const pods = [pod("0", "a", a), pod("0", "b", b)];
    const other = kept === "a" ? "b" : "a";
    expect(readable(slicePods(pods, 1, KEYS))).toEqual({
      slots: [kept],
      surplus: [`${other} 0 duplicate`],
      ignored: [],
    });
  });
});

const anyPod = fc
  .record({
    index: fc.option(
      fc.oneof(fc.integer({ min: -2, max: 6 }).map(String), fc.constantFrom("x", "1e3", "99999999999999999999")),
      {
        nil: undefined,
      },
    ),
    phase: fc.constantFrom("Pending", "Running", "Succeeded", "Failed"),
    ready: fc.boolean(),
    deleting: fc.boolean(),
    created: fc.constantFrom("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
  })
  .map(({ index, ...more }) => ({ index, more }));
const pods = fc
  .array(anyPod, { maxLength: 15 })
  .map((specs) => specs.map(({ index, more }, at) => pod(index, `pod-${at}`, more)));

describe("slicePods, whatever the pods", () => {
  it("puts every member in exactly one outcome, and fills only slots below the replicas", () => {
    fc.assert(
      fc.property(pods, fc.integer({ min: 0, max: 5 }), (members, replicas) => {
        const { slots, surplus, ignored } = slicePods(members, replicas, KEYS);
        expect(slots).toHaveLength(replicas);
        const placed = [
          ...slots.filter((member) => member !== undefined),
          ...surplus.map(({ member }) => member),
          ...ignored.map(({ member }) => member),
        ];
        expect(placed.map(nameOf).sort()).toEqual(members.map(nameOf).sort());
        slots.forEach((member, index) => {
          if (member !== undefined) expect(member.metadata?.labels?.[INDEX]).toBe(String(index));
          else expect(members.some((each) => each.metadata?.labels?.[INDEX] === String(index))).toBe(false);
        });
      }),
    );
  });

  it("gives the same result in any order of the members", () => {
    const shuffled = pods.chain((members) =>
      fc.tuple(fc.constant(members), fc.shuffledSubarray(members, { minLength: members.length })),
    );
    fc.assert(
      fc.property(shuffled, fc.integer({ min: 0, max: 5 }), ([members, other], replicas) => {
        expect(slicePods(other, replicas, KEYS)).toEqual(slicePods(members, replicas, KEYS));
      }),
    );
  });

  it("has nothing more to delete after its deletions", () => {
    fc.assert(
      fc.property(pods, fc.integer({ min: 0, max: 5 }), (members, replicas) => {
        const first = slicePods(members, replicas, KEYS);
        const gone = new Set(first.surplus.map(({ member }) => member));
        const then = slicePods(
          members.filter((member) => !gone.has(member)),
          replicas,
          KEYS,
        );
        expect(then).toEqual({ ...first, surplus: [] });
      }),
    );
  });
});
