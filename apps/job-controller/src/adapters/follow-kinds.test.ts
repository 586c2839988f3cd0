import { expect, it } from "vitest";
import { KINDS } from "../domain/kinds.ts";
import { followKinds, type FollowDeps } from "./follow-kinds.ts";

/** Follows kinds of an API server that answers with these statuses, by default 404. */
function following(statuses: Readonly<Record<string, number>>) {
  const warnings: unknown[] = [];
  const deps = {
    context: {
      config: { kube: { namespace: "default" } },
      logger: { warn: (fields: unknown) => warnings.push(fields) },
    },
    calls: {
      list: ({ plural }: { plural: string }) =>
        Promise.reject(Object.assign(new Error("no"), { code: statuses[plural] ?? 404 })),
    },
    runtimes: new Map(),
    gone: new Set<string>(),
    // No kind is served, so the test reaches no other dependency.
  } as unknown as FollowDeps;
  return { kinds: followKinds(deps), statuses, warnings };
}

const names = (kinds: readonly { readonly kind: string }[]): string[] => kinds.map(({ kind }) => kind);

it("continues with the other kinds when it may not read one, and warns once", async () => {
  const statuses: Record<string, number> = { jaxjobs: 403 };
  const { kinds, warnings } = following(statuses);
  const others = names(KINDS).filter((kind) => kind !== "JAXJob");
  expect(names(await kinds.discover())).toEqual(others);
  expect(names(await kinds.discover())).toEqual(others);
  expect(names(kinds.refused())).toEqual(["JAXJob"]);
  expect(kinds.unknown()).toEqual([]);
  expect(warnings).toEqual([{ kind: "JAXJob", rights: "jaxjobs.kubeflow.org" }]);
  delete statuses["jaxjobs"];
  expect(names(await kinds.discover())).toEqual(names(KINDS));
  expect(kinds.refused()).toEqual([]);
});

it("reports a kind as unknown while the API server does not answer", async () => {
  const { kinds } = following({ jaxjobs: 503 });
  await expect(kinds.discover()).rejects.toThrow("no");
  expect(names(kinds.unknown())).toEqual(["JAXJob"]);
});

it("counts a kind as read after the API server has answered twice that it is not installed", async () => {
  const statuses: Record<string, number> = { jaxjobs: 403, jobs: 503 };
  const { kinds } = following(statuses);
  expect(names(kinds.unread())).toEqual(names(KINDS));
  await expect(kinds.discover()).rejects.toThrow("no");
  expect(names(kinds.unread())).toEqual(names(KINDS));
  await expect(kinds.discover()).rejects.toThrow("no");
  expect(names(kinds.unread()).sort()).toEqual(["JAXJob", "Job"]);
  statuses["jobs"] = 403;
  await kinds.discover();
  expect(names(kinds.unread()).sort()).toEqual(["JAXJob", "Job"]);
  delete statuses["jobs"];
  delete statuses["jaxjobs"];
  await kinds.discover();
  expect(names(kinds.unread()).sort()).toEqual(["JAXJob", "Job"]);
  await kinds.discover();
  expect(kinds.unread()).toEqual([]);
});

it("counts a kind as unread if it is refused after an answer that it is not installed", async () => {
  const statuses: Record<string, number> = {};
  const { kinds } = following(statuses);
  await kinds.discover();
  await kinds.discover();
  expect(kinds.unread()).toEqual([]);
  statuses["jaxjobs"] = 403;
  await kinds.discover();
  expect(names(kinds.unread())).toEqual(["JAXJob"]);
  delete statuses["jaxjobs"];
  await kinds.discover();
  expect(names(kinds.unread())).toEqual(["JAXJob"]);
});

it("counts an uninstalled kind as unread if the API server does not answer the second time", async () => {
  const statuses: Record<string, number> = {};
  const { kinds } = following(statuses);
  await kinds.discover();
  await kinds.discover();
  statuses["jaxjobs"] = 503;
  await expect(kinds.discover()).rejects.toThrow("no");
  expect(names(kinds.unread())).toEqual(["JAXJob"]);
});
