import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import type { Api } from "./api.ts";
import { findKubectl } from "@muster/testkit";

export type Output = { readonly code: number; readonly out: string; readonly err: string };

export type Kubectl = {
  /** The title, with the reason when it is skipped. */
  readonly title: string;
  readonly skip: boolean;
  /** The file and arguments of the program, for callers that follow its output. */
  readonly program: string;
  environment(): NodeJS.ProcessEnv;
  /** The namespace that it works in. */
  namespace(): string;
  run(...args: readonly string[]): Promise<Output>;
  /** With variables of the environment, such as KUBE_EDITOR. */
  runWith(env: NodeJS.ProcessEnv, ...args: readonly string[]): Promise<Output>;
  /** Writes a file that kubectl can read; returns its path. */
  file(name: string, content: unknown): Promise<string>;
};

/** The real kubectl on a cluster, with a home and a namespace of its own. To be called where tests are collected. */
export function makeKubectl(api: () => Api): Kubectl {
  const found = findKubectl();
  const program = "path" in found ? found.path : "";
  let home = "";
  let namespace = "";
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), "muster-kubectl-"));
    namespace = await api().namespace();
  });
  afterAll(() => rm(home, { recursive: true, force: true }));
  const environment = (): NodeJS.ProcessEnv => ({
    HOME: home,
    TMPDIR: home,
    PATH: "/usr/bin:/bin",
    KUBECONFIG: api().cluster.kubeconfig,
  });
  const runWith = (env: NodeJS.ProcessEnv, ...args: readonly string[]): Promise<Output> => {
    return new Promise((resolve) => {
      const options = { env: { ...environment(), ...env }, maxBuffer: 1 << 24 };
      execFile(program, ["--namespace", namespace, ...args], options, (error, out, err) => {
        resolve({ code: typeof error?.code === "number" ? error.code : error === null ? 0 : 1, out, err });
      });
    });
  };
  return {
    title: "path" in found ? "the real program" : `the real program (skipped: ${found.reason})`,
    skip: program === "",
    program,
    environment,
    namespace: () => namespace,
    run: (...args) => runWith({}, ...args),
    runWith,
    file: async (name, content) => {
      const file = join(home, name);
      await writeFile(file, typeof content === "string" ? content : JSON.stringify(content));
      return file;
    },
  };
}
