import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { KubeObject } from "@muster/kube";
import { buildProcessEnv } from "@muster/testkit";
import { parseAllDocuments } from "yaml";
import { ROOT } from "../src/root.ts";

export const CHART = join(ROOT, "deploy/helm/muster");
/** The manifests of a full installation are some hundred kilobytes. */
const MAX_BUFFER = 64 * 1024 * 1024;

/** Runs helm and returns its output. Rejects with its error output when it fails. */
export async function runHelm(args: readonly string[], env: NodeJS.ProcessEnv = buildProcessEnv()): Promise<string> {
  const { stdout } = await promisify(execFile)("helm", args, { env, maxBuffer: MAX_BUFFER });
  return stdout;
}

/** Returns why the chart cannot be rendered here; undefined where helm is on the PATH. Throws without helm where CI=true. */
export async function describeMissingHelm(): Promise<string | undefined> {
  try {
    await runHelm(["version"]);
    return undefined;
  } catch (error) {
    if (process.env["CI"] === "true") throw error;
    return "helm is not on the PATH";
  }
}

/** The registry in the rendered manifests; no image is pulled from it. */
const REPOSITORY = "registry.example.com/muster";

/** Options of helm for these values and the registry. */
export function buildValueArguments(values: object): string[] {
  return Object.entries({ "image.repository": REPOSITORY, ...values }).flatMap(([key, value]) => [
    "--set-json",
    `${key}=${JSON.stringify(value)}`,
  ]);
}

/** Renders the chart with these values. */
export async function renderChart(
  namespace: string,
  values: object = {},
  chart = CHART,
): Promise<readonly KubeObject[]> {
  const text = await runHelm(["template", "muster", chart, "--namespace", namespace, ...buildValueArguments(values)]);
  const objects = parseAllDocuments(text).map((document) => document.toJS() as KubeObject | null);
  return objects.filter((object) => object !== null);
}
