import { mkdir, mkdtempDisposable, readFile, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Owner } from "../src/containers/setup/files.ts";
import { ROOT } from "../src/root.ts";

/** Creates the folders that docker-compose.yml mounts into the container `setup`, and returns their owner as the user of the services. */
export async function makeSetupVolumes(
  stack: AsyncDisposableStack,
): Promise<{ readonly root: string; readonly service: Owner }> {
  const { path: root } = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-setup-")));
  const compose = await readFile(join(ROOT, "docker-compose.yml"), "utf8");
  const folders = [...compose.matchAll(/:\/setup\/([\w/-]+)$/gmu)].map(([, folder = ""]) => folder);
  if (folders.length === 0) throw new Error("docker-compose.yml mounts no folder below /setup");
  for (const folder of folders) await mkdir(join(root, folder), { recursive: true });
  await writeFile(join(root, "compose.yml"), "");
  const { uid, gid } = await stat(root);
  return { root, service: { uid, gid } };
}
