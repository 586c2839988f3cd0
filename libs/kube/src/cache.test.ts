import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildObjectKey, makeCache } from "./cache.ts";

type Thing = {
  readonly metadata: { readonly name: string; readonly uid: string; readonly resourceVersion: string };
  readonly owners: readonly string[];
};
type Kept = { readonly name: string; readonly owners: readonly string[] };

let version = 0;
function thing(name: string, owners: readonly string[], uid = name): Thing {
  version += 1;
  return { metadata: { name, uid, resourceVersion: String(version) }, owners };
}

function indexedCache() {
  const poison: unknown[] = [];
  const cache = makeCache<Thing, Kept>(
    ({ metadata, owners }) => ({ name: metadata.name, owners }),
    (error) => poison.push(error),
    {
      owner: ({ owners }) => {
        if (owners.includes("poison")) throw new Error("cannot index this");
        return owners;
      },
      first: ({ name }) => [name.slice(0, 1)],
    },
  );
  const owned = (owner: string) => cache.byIndex("owner", owner).map(({ name }) => name);
  return { cache, owned, poison };
}

describe("an index", () => {
  it.each<[title: string, changes: readonly (readonly [name: string, owners: readonly string[]])[], x: string[]]>([
    ["finds an added object", [["a", ["x"]]], ["a"]],
    [
      "finds all objects of one value",
      [
        ["a", ["x"]],
        ["b", ["x"]],
        ["c", ["y"]],
      ],
      ["a", "b"],
    ],
    ["finds an object under each of its values", [["a", ["y", "x"]]], ["a"]],
    ["treats a repeated value as one", [["a", ["x", "x"]]], ["a"]],
    [
      "drops an object whose value changes",
      [
        ["a", ["x"]],
        ["a", ["y"]],
      ],
      [],
    ],
    [
      "finds an object whose value changes to it",
      [
        ["a", ["y"]],
        ["a", ["x"]],
      ],
      ["a"],
    ],
    [
      "keeps the others when one of three changes its value",
      [
        ["a", ["x"]],
        ["b", ["x"]],
        ["c", ["x"]],
        ["b", []],
      ],
      ["a", "c"],
    ],
    ["finds nothing without values", [["a", []]], []],
    [
      "keeps the former row of an object that it cannot read",
      [
        ["a", ["x"]],
        ["a", ["poison"]],
      ],
      ["a"],
    ],
  ])("%s", (_title, changes, x) => {
    const { cache, owned } = indexedCache();
    for (const [name, owners] of changes) cache.put(thing(name, owners));
    expect(owned("x").sort()).toEqual(x);
  });

  it("forgets removed objects, and objects that a list no longer has", () => {
    const { cache, owned } = indexedCache();
    const [a, b, c] = [thing("a", ["x"]), thing("b", ["x"]), thing("c", ["x"])];
    for (const each of [a, b, c]) cache.put(each);
    cache.remove(a);
    expect(owned("x")).toEqual(["b", "c"]);
    const list = cache.replace();
    list.add([c]);
    list.finish();
    expect(owned("x")).toEqual(["c"]);
  });

  it("reports an object that it cannot read", () => {
    const { cache, poison } = indexedCache();
    expect(cache.put(thing("a", ["poison"]))).toEqual([]);
    expect(poison.map(String)).toEqual(["Error: cannot index this"]);
    expect(cache.list()).toEqual([]);
  });

  it("throws when it does not exist", () => {
    expect(() => indexedCache().cache.byIndex("missing", "x")).toThrow("no index missing");
  });
});

const name = fc.constantFrom("aa", "ab", "ba", "bb", "c");
const owners = fc.array(fc.constantFrom("x", "y", "z", "poison"), { maxLength: 3 });
const happening = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("put" as const), name, owners, uid: fc.constantFrom("1", "2") }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("remove" as const), name }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("list" as const),
      things: fc.array(fc.tuple(name, owners), { maxLength: 5 }),
    }),
  },
);

it("finds the same objects as a full scan, after any changes", () => {
  fc.assert(
    fc.property(fc.array(happening, { maxLength: 40 }), (happenings) => {
      const { cache } = indexedCache();
      for (const each of happenings) {
        if (each.do === "put") cache.put(thing(each.name, each.owners, `${each.name}-${each.uid}`));
        else if (each.do === "remove") cache.remove(thing(each.name, []));
        else {
          const list = cache.replace();
          list.add(each.things.map(([listed, by]) => thing(listed, by)));
          list.finish();
        }
        for (const owner of ["x", "y", "z", "poison", ""]) {
          const wanted = cache.list().filter((kept) => kept.owners.includes(owner));
          expect(new Set(cache.byIndex("owner", owner))).toEqual(new Set(wanted));
          expect(cache.byIndex("owner", owner)).toHaveLength(wanted.length);
        }
        for (const first of "abcd") {
          const wanted = cache.list().filter((kept) => kept.name.startsWith(first));
          expect(new Set(cache.byIndex("first", first))).toEqual(new Set(wanted));
        }
      }
    }),
    { numRuns: 300 },
  );
});

describe("a cache", () => {
  const kept = (name: string, owners: readonly string[]): Kept => ({ name, owners });

  it("keeps an object until it is removed", () => {
    const { cache } = indexedCache();
    cache.put(thing("a", ["x"]));
    expect(cache.get("a")).toEqual(kept("a", ["x"]));
    expect(cache.get("b")).toBeUndefined();
    expect(cache.remove(thing("a", []))).toEqual([{ key: "a", before: kept("a", ["x"]), after: undefined }]);
    expect(cache.get("a")).toBeUndefined();
    expect(cache.remove(thing("a", []))).toEqual([]);
  });

  it("reports one change for the same object, and a deletion and an addition for another object of its name", () => {
    const { cache } = indexedCache();
    expect(cache.put(thing("a", ["x"]))).toEqual([{ key: "a", before: undefined, after: kept("a", ["x"]) }]);
    const same = thing("a", ["y"]);
    expect(cache.put(same)).toEqual([{ key: "a", before: kept("a", ["x"]), after: kept("a", ["y"]) }]);
    expect(cache.put(same)).toEqual([]);
    expect(cache.put(thing("a", ["z"], "other"))).toEqual([
      { key: "a", before: kept("a", ["y"]), after: undefined },
      { key: "a", before: undefined, after: kept("a", ["z"]) },
    ]);
  });

  it("drops only the objects that a list lacks", () => {
    const { cache } = indexedCache();
    const [a, b] = [thing("a", ["x"]), thing("b", ["x"])];
    cache.put(a);
    cache.put(b);
    const list = cache.replace();
    list.add([b]);
    list.add([thing("c", [])]);
    expect(list.finish()).toEqual([
      { key: "a", before: kept("a", ["x"]), after: undefined },
      { key: "c", before: undefined, after: kept("c", []) },
    ]);
    expect(cache.list().map(({ name }) => name)).toEqual(["b", "c"]);
  });

  it("has no index by default", () => {
    expect(() => indexedCache().cache.byIndex("none", "x")).toThrow("no index none");
  });
});

it("builds a key from namespace and name, and throws for an object without a name", () => {
  expect(buildObjectKey({ metadata: { name: "a" } })).toBe("a");
  expect(buildObjectKey({ metadata: { name: "a", namespace: "ns" } })).toBe("ns/a");
  for (const metadata of [undefined, {}, { name: "" }, { namespace: "ns" }])
    expect(() => buildObjectKey({ kind: "Pod", ...(metadata && { metadata }) })).toThrow(
      "an object without a name: Pod",
    );
});
