import { join } from "node:path";

/** The directories of one pod's files. */
export type PodDirectory = { readonly root: string; readonly home: string; readonly logs: string };

export function makePodDirectory(nodeDirectory: string, uid: string): PodDirectory {
  const root = join(nodeDirectory, "pods", uid);
  return { root, home: join(root, "home"), logs: join(root, "logs") };
}
