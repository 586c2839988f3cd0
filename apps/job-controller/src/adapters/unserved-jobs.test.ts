import type { KubeCalls, KubeResource } from "@muster/kube";
import { expect, it } from "vitest";
import { openUnservedJobs } from "./unserved-jobs.ts";

const FINISHED = { conditions: [{ type: "Succeeded", status: "True" }] };

function job(name: string, status: object = {}) {
  return { metadata: { namespace: "team-z", name, uid: name, resourceVersion: "1" }, spec: {}, status };
}

function kindOf(kind: string) {
  return { kind: { kind }, resource: { apiVersion: "muster.dev/v1", plural: `${kind.toLowerCase()}s` } };
}

/** Returns the findings of two scans in a row, where the API server answers each list with `listed`. */
async function look(
  kinds: readonly string[],
  listed: (resource: KubeResource) => readonly object[],
  { serves }: { readonly serves: boolean | undefined } = { serves: false },
) {
  const calls = {
    list: (resource: KubeResource, { query = {} }: { readonly query?: Readonly<Record<string, unknown>> } = {}) => {
      const all = listed(resource);
      const from = Number(query["continue"] ?? 0);
      const to = from + Number(query["limit"]);
      const page = {
        items: all.slice(from, to),
        resourceVersion: "1",
        continue: to < all.length ? `${to}` : undefined,
      };
      return Promise.resolve(page);
    },
    // The test needs only these two overloads of the call.
  } as unknown as Pick<KubeCalls, "list">;
  const runtimes = kinds.map(kindOf) as unknown as ReturnType<Parameters<typeof openUnservedJobs>[0]["runtimes"]>;
  const elsewhere = openUnservedJobs({
    calls,
    namespace: "default",
    servesNamespace: () => serves,
    runtimes: () => runtimes,
    report: () => undefined,
    now: () => 0,
  });
  await elsewhere.scan(false);
  await elsewhere.scan(false);
  const unserved = elsewhere.unserved().map(({ name }) => name);
  return { unserved, isRefused: elsewhere.isRefused(), isCut: elsewhere.isCut() };
}

const finished = (count: number) => Array.from({ length: count }, (_, at) => job(`done-${at}`, FINISHED));

it("finds a job without a controller behind thousands of jobs that have one", async () => {
  const found = await look(["Job"], () => [...finished(3000), job("stray")]);
  expect(found).toEqual({ unserved: ["stray"], isRefused: false, isCut: false });
});

it.each([[true], [undefined]])("finds no job in a namespace that is served, or may be: %o", async (serves) => {
  const found = await look(["Job"], () => [job("stray")], { serves });
  expect(found).toEqual({ unserved: [], isRefused: false, isCut: false });
});

it("reports that a scan does not read all jobs", async () => {
  const found = await look(["Job"], () => [job("stray"), ...finished(20_000)]);
  expect(found).toEqual({ unserved: ["stray"], isRefused: false, isCut: true });
});

it("scans the other kinds if one may not be listed", async () => {
  const found = await look(["TFJob", "Job"], ({ plural }) => {
    if (plural === "tfjobs") throw Object.assign(new Error("forbidden"), { code: 403 });
    return [job("stray")];
  });
  expect(found).toEqual({ unserved: ["stray"], isRefused: true, isCut: false });
});
