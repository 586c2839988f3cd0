import { execFile } from "node:child_process";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { buildProcessEnv } from "@muster/testkit";

const MAX_BUFFER = 64 * 1024 * 1024;

/** The tools of a cluster's operator: kubectl, and a directory. */
export type ClusterTools = AsyncDisposable & {
  /** Removed on disposal. */
  readonly directory: string;
  readonly env: NodeJS.ProcessEnv;
  /** Resolves with the output; rejects when the exit code is not 0. */
  readonly kubectl: (words: string, input?: object) => Promise<string>;
  /** Writes a file with this content; returns its path. */
  readonly fileOf: (name: string, content: object | string) => Promise<string>;
};

/** Tools for the cluster of this kubeconfig only. */
export async function makeClusterTools(kubeconfig: string): Promise<ClusterTools> {
  const temporary = await mkdtempDisposable(join(tmpdir(), "muster-tools-"));
  const directory = temporary.path;
  const env: NodeJS.ProcessEnv = { ...buildProcessEnv(), KUBECONFIG: kubeconfig, HOME: directory };
  return {
    directory,
    env,
    kubectl: async (words, input) => {
      const running = promisify(execFile)("kubectl", words.split(" "), { env, maxBuffer: MAX_BUFFER });
      if (input !== undefined) running.child.stdin?.end(JSON.stringify(input));
      return (await running).stdout;
    },
    fileOf: async (name, content) => {
      const file = join(directory, name);
      await writeFile(file, typeof content === "string" ? content : JSON.stringify(content));
      return file;
    },
    [Symbol.asyncDispose]: () => temporary[Symbol.asyncDispose](),
  };
}
