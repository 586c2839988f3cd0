import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type KubeCalls, makeKubeCalls, toKubeFault, loadKube } from "@muster/kube";
import { startKubeApiServer, findKubeAssets, until } from "@muster/testkit";
import { parse } from "yaml";

/** Definitions that other projects publish; with CI=true a missing folder is an error. */
export const FIXTURES = process.env["MUSTER_CRD_FIXTURES"];
if (FIXTURES === undefined && process.env["CI"] === "true") {
  throw new Error(
    "CI=true allows no skipped suite: MUSTER_CRD_FIXTURES names no folder with karpenter and cluster-api",
  );
}

export type ControlPlane = AsyncDisposable & { readonly kubeconfig: string; readonly calls: KubeCalls };

export type ControlPlaneCase = {
  readonly title: string;
  readonly skip: boolean;
  readonly start: (definitions: readonly string[]) => Promise<ControlPlane>;
};

const assets = findKubeAssets();

/** API servers with definitions of the fixtures, named by their files. The rules of these definitions need functions that only a real API server has. */
export const CONTROL_PLANES: readonly ControlPlaneCase[] = [
  {
    title: named("a real kube-apiserver", assets.found ? undefined : assets.reason),
    skip: FIXTURES === undefined || !assets.found,
    start: async (definitions) => {
      await using starting = new AsyncDisposableStack();
      const { kubeconfig } = starting.use(await startKubeApiServer());
      return await withDefinitions(starting, kubeconfig, definitions);
    },
  },
];

function named(title: string, missing: string | undefined): string {
  const reason = FIXTURES === undefined ? "MUSTER_CRD_FIXTURES names no folder" : missing;
  return reason === undefined ? title : `${title} (skipped: ${reason})`;
}

async function withDefinitions(
  starting: AsyncDisposableStack,
  kubeconfig: string,
  definitions: readonly string[],
): Promise<ControlPlane> {
  const calls = starting.use(makeKubeCalls(loadKube(kubeconfig)));
  const place = { apiVersion: "apiextensions.k8s.io/v1", plural: "customresourcedefinitions" };
  for (const file of definitions) {
    const definition = parse(await readFile(join(FIXTURES ?? "", file), "utf8")) as Definition;
    // The webhooks of these projects do not run here.
    const { conversion: _, ...spec } = definition.spec;
    await calls.create(place, { ...definition, spec });
    const { group, names, versions } = definition.spec;
    const stored = versions.find(({ storage }) => storage)?.name ?? "";
    await until(`${names.plural} are served`, async () => {
      try {
        await calls.list({ apiVersion: `${group}/${stored}`, plural: names.plural });
        return true;
      } catch (error) {
        const code = toKubeFault(error)?.code;
        if (code === "not_found" || code === "unavailable") return false;
        throw error;
      }
    });
  }
  const all = starting.move();
  return { kubeconfig, calls, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

type Definition = {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly group: string;
    readonly names: { readonly plural: string };
    readonly versions: readonly { readonly name: string; readonly storage: boolean }[];
    readonly conversion?: unknown;
  };
};
