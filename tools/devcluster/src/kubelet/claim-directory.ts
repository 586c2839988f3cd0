import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { throwFault } from "@muster/faults";
import { readIdentity } from "./process-tree.ts";

/** Claims a node's directory for this process. Throws already_exists while another live process has it; the claim of a dead process is taken over. */
export function claimDirectory(directory: string): Disposable {
  mkdirSync(join(directory, "pods"), { recursive: true, mode: 0o700 });
  return claimForOwner("kubelet", directory);
}

/** As `claimDirectory`, for an existing directory and another kind of owner. */
export function claimForOwner(kind: string, directory: string): Disposable {
  const file = join(directory, "owner");
  const own = JSON.stringify({ pid: process.pid, identity: readIdentity(process.pid) });
  const owner = readOwner(file);
  if (owner !== undefined && owner.pid !== process.pid && readIdentity(owner.pid) === owner.identity) {
    throwFault({ code: "already_exists", kind, id: `of process ${owner.pid} in ${directory}` });
  }
  writeFileSync(file, own, { mode: 0o600 });
  return { [Symbol.dispose]: () => rmSync(file, { force: true }) };
}

function readOwner(file: string): { pid: number; identity: string } | undefined {
  try {
    const parsed: unknown = JSON.parse(readFileSync(file, "utf8"));
    if (typeof parsed !== "object" || parsed === null || !("pid" in parsed) || !("identity" in parsed))
      return undefined;
    const { pid, identity } = parsed;
    return typeof pid === "number" && typeof identity === "string" ? { pid, identity } : undefined;
  } catch {
    // No file, or a truncated one: the directory has no owner.
    return undefined;
  }
}
