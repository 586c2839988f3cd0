import fc from "fast-check";
import { expect, it } from "vitest";
import { DRAWN, type Found, type Makers, planKeys, publicKeyOf, type Wanted } from "../install-keys.ts";

const NOTHING: Found = { nkeys: undefined, authority: undefined, tls: undefined, engine: undefined };
const SECRETS: Readonly<Record<string, keyof Found>> = {
  "muster-nats-nkeys": "nkeys",
  "muster-nats-authority": "authority",
  "muster-nats-tls": "tls",
  "muster-provision-engine": "engine",
};
const USERS = ["watcher", "job-controller", "cli", "backup"];
/** Real ones take milliseconds each. */
const seeds = Array.from({ length: 8 }, DRAWN.seed);

/** Each thing that is made is another than all before. */
function numbered(): Makers {
  let made = 0;
  const next = (what: string): string => `${what}-${(made += 1)}`;
  return {
    seed: () => seeds[(made += 1) % seeds.length] ?? "",
    key: () => next("key"),
    authority: () => ({ "tls.crt": next("authority"), "tls.key": next("authority-key") }),
    certificate: (_names, _nowMs, authority) => ({
      "tls.crt": next(`leaf of ${authority["tls.crt"] ?? ""}`),
      "tls.key": next("leaf-key"),
      "ca.crt": authority["tls.crt"] ?? "",
    }),
  };
}

/** The cluster after these writes. */
function after(found: Found, plan: readonly Wanted[]): Found {
  const written = plan
    .filter(({ kind }) => kind === "Secret")
    .map(({ name, stringData }) => [SECRETS[name], stringData]);
  return { ...found, ...(Object.fromEntries(written) as Partial<Found>) };
}

const users = fc.subarray(USERS);
const secrets = fc.record({
  nkeys: fc.option(
    fc
      .subarray([...USERS, "of-an-older-version"])
      .map((names) => Object.fromEntries(names.map((name, at) => [`${name}.nk`, seeds[at] ?? ""]))),
    { nil: undefined },
  ),
  authority: fc.constantFrom(undefined, { "tls.crt": "found", "tls.key": "found-key" }),
  tls: fc.constantFrom(
    undefined,
    { "tls.crt": "self", "tls.key": "k" },
    { "tls.crt": "leaf of found", "tls.key": "k", "ca.crt": "found" },
  ),
  engine: fc.constantFrom(undefined, {}, { key: "kept" }, { note: "left alone" }),
});

it("changes nothing secret that is there, and names each entry that it adds", () => {
  fc.assert(
    fc.property(secrets, users, (found, asked) => {
      for (const { name, stringData, because, lacked = [] } of planKeys(
        found,
        { users: asked, namespace: "here", nowMs: 0 },
        numbered(),
      )) {
        const before = found[SECRETS[name] ?? "nkeys"];
        if (stringData === undefined) continue;
        expect(stringData).toMatchObject(before ?? {});
        const added = Object.keys(stringData).filter((key) => !Object.hasOwn(before ?? {}, key));
        expect(added.length).toBeGreaterThan(0);
        expect(because).toBe(before === undefined ? "missing" : "incomplete");
        if (before !== undefined) expect(lacked.toSorted()).toEqual(added.toSorted());
      }
    }),
  );
});

it("comes to the same end wherever it was killed: each user has a seed, and what is public is that of the Secrets", () => {
  fc.assert(
    fc.property(secrets, users, fc.nat(6), (found, asked, done) => {
      const make = numbered();
      const plan = (from: Found): readonly Wanted[] =>
        planKeys(from, { users: asked, namespace: "here", nowMs: 0 }, make);
      const half = after(found, plan(found).slice(0, done));
      const rest = plan(half);
      const end = after(half, rest);
      for (const kind of Object.values(SECRETS)) expect(end[kind] ?? {}).toMatchObject(half[kind] ?? {});
      expect(end.engine?.["key"]).toBeDefined();
      if (asked.length === 0) return;
      for (const user of asked) expect(end.nkeys?.[`${user}.nk`]).toBeDefined();
      const publicOf = (name: string) => rest.find((each) => each.name === name)?.data;
      const keys = Object.values(end.nkeys ?? {}).map(publicKeyOf);
      expect(Object.values(publicOf("muster-nats-keys") ?? {}).toSorted()).toEqual(keys.toSorted());
      expect(publicOf("muster-nats-ca")).toEqual({ "ca.crt": end.tls?.["ca.crt"] });
      expect(plan(end).filter(({ kind }) => kind === "Secret")).toEqual([]);
    }),
  );
});

it("signs what it makes with the authority that is there", () => {
  const authority = { "tls.crt": "found", "tls.key": "found-key" };
  const [tls] = planKeys({ ...NOTHING, authority }, { users: USERS, namespace: "here", nowMs: 0 }, numbered());
  expect(tls).toMatchObject({
    name: "muster-nats-tls",
    stringData: { "ca.crt": "found", "tls.crt": "leaf of found-1" },
  });
});
