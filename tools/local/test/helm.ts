import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { KubeObject } from "@muster/kube";
import { processEnv } from "@muster/testkit";
import { parseAllDocuments } from "yaml";
import { ROOT } from "../src/root.ts";

export const CHART = join(ROOT, "deploy/helm/muster");
/** An installation with everything in it is some hundred kilobytes of text. */
const MAX_BUFFER = 64 * 1024 * 1024;

/** Runs helm, and returns what it printed. Rejects with what it said where it fails. */
export async function helm(args: readonly string[], env: NodeJS.ProcessEnv = processEnv()): Promise<string> {
  const { stdout } = await promisify(execFile)("helm", args, { env, maxBuffer: MAX_BUFFER });
  return stdout;
}

/** Why nothing can be rendered here; undefined where helm is on the PATH. With CI=true it has to be. */
export async function helmMissing(): Promise<string | undefined> {
  try {
    await helm(["version"]);
    return undefined;
  } catch (error) {
    if (process.env["CI"] === "true") throw error;
    return "helm is not on the PATH";
  }
}

/** Where images would be; nothing is pulled from there. */
const REPOSITORY = "registry.example.com/muster";

/** Options of helm that give these values, and where the images are. */
export function given(values: object): string[] {
  return Object.entries({ "image.repository": REPOSITORY, ...values }).flatMap(([key, value]) => [
    "--set-json",
    `${key}=${JSON.stringify(value)}`,
  ]);
}

/** What the chart makes of these values. */
export async function render(namespace: string, values: object = {}, chart = CHART): Promise<readonly KubeObject[]> {
  const text = await helm(["template", "muster", chart, "--namespace", namespace, ...given(values)]);
  const objects = parseAllDocuments(text).map((document) => document.toJS() as KubeObject | null);
  return objects.filter((object) => object !== null);
}
