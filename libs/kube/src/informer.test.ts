import { until } from "@muster/testkit";
import fc from "fast-check";
import { expect, it } from "vitest";
import { openInformer, type Informer } from "./informer.ts";
import { KubeError } from "./kube-error.ts";
import type { ListWatch, WatchEvent } from "./list-watch.ts";

type Thing = { readonly metadata: { name: string; uid: string; resourceVersion: string } };
type Kept = { readonly uid: string; readonly version: number };

/** Changes of the server, in order. */
type Happening =
  | { readonly do: "put" | "delete"; readonly name: string }
  | { readonly do: "cut" | "end" | "bookmark" | "error" | "compact" | "garbage" | "let the client work" };

/** An API server of one resource: a history of events, which `compact` truncates, and watches that can be cut. */
function modelServer() {
  let version = 1;
  let oldest = 1;
  const things = new Map<string, Thing>();
  const snapshots = new Map<string, Thing[]>();
  const history: { at: number; event: WatchEvent<Thing> }[] = [];
  const watches = new Set<{ push: (event: WatchEvent<Thing> | Error | "end") => void }>();

  function record(type: "ADDED" | "MODIFIED" | "DELETED", object: Thing): void {
    history.push({ at: version, event: { type, object } });
    for (const open of watches) open.push({ type, object });
  }
  const say = (word: WatchEvent<Thing> | Error | "end") => {
    for (const open of watches) open.push(word);
  };
  const source: ListWatch<Thing> = {
    list: ({ limit, continue: token }) => {
      if (token !== undefined && Number(token.split(":")[1]) < oldest) {
        return Promise.reject(new KubeError("list", 410, { reason: "Expired" }));
      }
      const [after = "", at = String(version)] = token?.split(":") ?? [];
      // The pages of one list show the state at its first page.
      const all = snapshots.get(at) ?? [...things.values()];
      snapshots.set(at, all);
      const rest = all
        .filter(({ metadata }) => metadata.name > after)
        .sort((a, b) => a.metadata.name.localeCompare(b.metadata.name));
      const items = limit === 0 ? rest : rest.slice(0, limit);
      const more = items.length < rest.length;
      return Promise.resolve({
        items,
        resourceVersion: at,
        continue: more ? `${items.at(-1)?.metadata.name ?? ""}:${at}` : undefined,
      });
    },
    watch: async function* ({ resourceVersion, signal }) {
      signal.throwIfAborted();
      if (Number(resourceVersion) < oldest) throw new KubeError("watch", 410, { reason: "Gone" });
      const queue: (WatchEvent<Thing> | Error | "end")[] = history
        .filter(({ at }) => at > Number(resourceVersion))
        .map(({ event }) => event);
      let wake = Promise.withResolvers<undefined>();
      const open = {
        push: (word: WatchEvent<Thing> | Error | "end") => {
          queue.push(word);
          wake.resolve(undefined);
        },
      };
      const abort = () => open.push(new Error("aborted"));
      signal.addEventListener("abort", abort);
      watches.add(open);
      try {
        for (;;) {
          const word = queue.shift();
          if (word === "end") return;
          if (word instanceof Error) throw word;
          if (word !== undefined) yield word;
          else {
            wake = Promise.withResolvers();
            await wake.promise;
          }
        }
      } finally {
        watches.delete(open);
        signal.removeEventListener("abort", abort);
      }
    },
  };

  return {
    source,
    things: () => [...things.values()],
    version: () => version,
    happen: async (happening: Happening): Promise<void> => {
      switch (happening.do) {
        case "put": {
          version += 1;
          const old = things.get(happening.name);
          const uid = old?.metadata.uid ?? `${happening.name}-${version}`;
          const next = { metadata: { name: happening.name, uid, resourceVersion: String(version) } };
          things.set(happening.name, next);
          record(old === undefined ? "ADDED" : "MODIFIED", next);
          return;
        }
        case "delete": {
          const old = things.get(happening.name);
          if (old === undefined) return;
          version += 1;
          things.delete(happening.name);
          record("DELETED", { metadata: { ...old.metadata, resourceVersion: String(version) } });
          return;
        }
        case "cut": {
          say(new Error("connection reset"));
          return;
        }
        case "garbage": {
          say({ type: "ADDED", object: { metadata: { name: "", uid: "", resourceVersion: "1" } } });
          return;
        }
        case "end": {
          say("end");
          return;
        }
        case "bookmark": {
          say({
            type: "BOOKMARK",
            object: { metadata: { name: "", uid: "", resourceVersion: String(version) } },
          });
          return;
        }
        case "error": {
          say({ type: "ERROR", object: { code: 500, reason: "InternalError" } });
          return;
        }
        case "compact":
          oldest = version;
          {
            say({ type: "ERROR", object: { code: 410, reason: "Expired" } });
            return;
          }
        case "let the client work":
          for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      }
    },
  };
}

const name = fc.constantFrom("a", "b", "c", "d", "e");
const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("put" as const), name }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("delete" as const), name }) },
  { weight: 3, arbitrary: fc.constant({ do: "let the client work" } as const) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom("cut", "end", "bookmark", "error", "compact", "garbage") }),
  },
);

const rows = (things: readonly Thing[]) =>
  things.map(({ metadata }) => `${metadata.uid}@${metadata.resourceVersion}`).sort();
const kept = (followed: Informer<Kept>) =>
  followed
    .list()
    .map(({ uid, version }) => `${uid}@${version}`)
    .sort();

it("converges to the server's state through any gaps, with an unbroken chain of changes per object", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { maxLength: 40 }), async (happenings) => {
      const server = modelServer();
      await using followed = openInformer<Thing, Kept>({
        source: server.source,
        project: ({ metadata }) => ({ uid: metadata.uid, version: Number(metadata.resourceVersion) }),
        pageSize: 2,
        timing: { minBackoffMs: 0, maxBackoffMs: 0 },
      });
      const chain = new Map<string, Kept | undefined>();
      const broken: string[] = [];
      followed.onChange(({ key, before, after }) => {
        if (chain.get(key) !== before) broken.push(`${key}: before is not the last after`);
        if (before === undefined && after === undefined) broken.push(`${key}: a change of nothing`);
        if (before !== undefined && after !== undefined) {
          if (before.uid !== after.uid) broken.push(`${key}: one object became another`);
          if (before.version >= after.version) broken.push(`${key}: went back in time`);
        }
        chain.set(key, after);
      });
      for (const each of happenings) await server.happen(each);
      await until("the cache is as new as the server", () => followed.resourceVersion() === String(server.version()), {
        timeoutMs: 60_000,
        everyMs: 1,
      });
      expect(kept(followed)).toEqual(rows(server.things()));
      const present = [...chain.values()].filter((value) => value !== undefined);
      expect(present.map(({ uid, version }) => `${uid}@${version}`).sort()).toEqual(rows(server.things()));
      expect(broken).toEqual([]);
    }),
    { numRuns: 300 },
  );
});

it("reports the version up to which it is complete, also from bookmarks alone", async () => {
  const server = modelServer();
  await using followed = openInformer<Thing, string>({
    source: server.source,
    project: ({ metadata }) => metadata.uid,
  });
  expect(followed.resourceVersion()).toBeUndefined();
  await followed.synced;
  expect(followed.resourceVersion()).toBe("1");
  await server.happen({ do: "let the client work" });
  await server.happen({ do: "put", name: "a" });
  await server.happen({ do: "bookmark" });
  await until("the bookmark is seen", () => followed.resourceVersion() === "2");
});
