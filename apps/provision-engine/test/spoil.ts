import { existsSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";

/**
 * A file `<lease>.<what>` in the directory makes the next call for the lease kill the process after its effect (`kill`), or hang and ignore all signals
 * (`hang`).
 */
export async function spoilRecord(directory: string, id: string): Promise<void> {
  const [kill, hang] = [join(directory, `${id}.kill`), join(directory, `${id}.hang`)];
  if (existsSync(kill)) {
    await rm(kill);
    process.kill(process.pid, "SIGKILL");
  }
  if (!existsSync(hang)) return;
  await rename(hang, `${hang}s`);
  await new Promise(() => undefined);
}
