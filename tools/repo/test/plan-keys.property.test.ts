import fc from "fast-check";
import { expect, it } from "vitest";
import {
  RANDOM_MAKERS,
  type Found,
  type Makers,
  planKeys,
  derivePublicKey,
  type PlannedObject,
} from "../install-keys.ts";

const NOTHING: Found = {
  nkeys: undefined,
  authority: undefined,
  tls: undefined,
  engine: undefined,
  sessions: undefined,
};
const SECRETS: Readonly<Record<string, keyof Found>> = {
  "muster-nats-nkeys": "nkeys",
  "muster-nats-authority": "authority",
  "muster-nats-tls": "tls",
  "muster-provision-engine": "engine",
  "muster-gateway-session": "sessions",
};
const USERS = ["watcher", "job-controller", "cli", "backup"];
/** Drawn once, because each takes milliseconds. */
const seeds = Array.from({ length: 8 }, RANDOM_MAKERS.seed);

/** Makers whose results are all different. */
function numbered(): Makers {
  let made = 0;
  const next = (kind: string): string => `${kind}-${(made += 1)}`;
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
function after(found: Found, plan: readonly PlannedObject[]): Found {
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
  sessions: fc.constantFrom(undefined, {}, { "session-keys": "kept" }, { note: "left alone" }),
});

it("changes no existing secret, and names each entry that it adds", () => {
  fc.assert(
    fc.property(secrets, users, (found, users) => {
      for (const { name, stringData, because, missingEntries = [] } of planKeys(
        found,
        { users: users, namespace: "here", nowMs: 0 },
        numbered(),
      )) {
        const before = found[SECRETS[name] ?? "nkeys"];
        if (stringData === undefined) continue;
        expect(stringData).toMatchObject(before ?? {});
        const added = Object.keys(stringData).filter((key) => !Object.hasOwn(before ?? {}, key));
        expect(added.length).toBeGreaterThan(0);
        expect(because).toBe(before === undefined ? "missing" : "incomplete");
        if (before !== undefined) expect(missingEntries.toSorted()).toEqual(added.toSorted());
      }
    }),
  );
});

it("reaches the same result after a kill at any point: each user has a seed, and the public parts match the Secrets", () => {
  fc.assert(
    fc.property(secrets, users, fc.nat(6), (found, users, done) => {
      const make = numbered();
      const plan = (from: Found): readonly PlannedObject[] =>
        planKeys(from, { users: users, namespace: "here", nowMs: 0 }, make);
      const half = after(found, plan(found).slice(0, done));
      const rest = plan(half);
      const end = after(half, rest);
      for (const kind of Object.values(SECRETS)) expect(end[kind] ?? {}).toMatchObject(half[kind] ?? {});
      expect(end.engine?.["key"]).toBeDefined();
      expect(end.sessions?.["session-keys"]).toBeDefined();
      if (users.length === 0) return;
      for (const user of users) expect(end.nkeys?.[`${user}.nk`]).toBeDefined();
      const publicOf = (name: string) => rest.find((each) => each.name === name)?.data;
      const keys = Object.values(end.nkeys ?? {}).map(derivePublicKey);
      expect(Object.values(publicOf("muster-nats-keys") ?? {}).toSorted()).toEqual(keys.toSorted());
      expect(publicOf("muster-nats-ca")).toEqual({ "ca.crt": end.tls?.["ca.crt"] });
      expect(plan(end).filter(({ kind }) => kind === "Secret")).toEqual([]);
    }),
  );
});

it("signs with the existing authority", () => {
  const authority = { "tls.crt": "found", "tls.key": "found-key" };
  const [tls] = planKeys({ ...NOTHING, authority }, { users: USERS, namespace: "here", nowMs: 0 }, numbered());
  expect(tls).toMatchObject({
    name: "muster-nats-tls",
    stringData: { "ca.crt": "found", "tls.crt": "leaf of found-1" },
  });
});
