import { existsSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runService } from "@muster/service";
import { readConfig } from "../src/config.ts";
import type { LeaseRecord } from "../src/domain/lease.ts";
import { run } from "../src/service.ts";
import type { Workload } from "../src/workloads/workload.ts";

/**
 * An engine whose debug workloads are files in a directory. A file `<lease>.<what>` makes the next call for the lease, after its effect, kill the process (`kill`), or hang
 * and heed no signal (`hang`).
 */
const directory = process.env["FILES"] ?? "";

async function spoil(id: string): Promise<void> {
  const [kill, hang] = [join(directory, `${id}.kill`), join(directory, `${id}.hang`)];
  if (existsSync(kill)) {
    await rm(kill);
    process.kill(process.pid, "SIGKILL");
  }
  if (!existsSync(hang)) return;
  await rename(hang, `${hang}s`);
  await new Promise(() => undefined);
}

const fileOf = ({ order }: LeaseRecord): string => join(directory, order.id);

const files: Workload = {
  type: "debug",
  provision: async (lease) => {
    await writeFile(fileOf(lease), "", { flag: "a" });
    await spoil(lease.order.id);
    return lease.order.data;
  },
  decommission: async (lease) => {
    await rm(fileOf(lease), { force: true });
    await spoil(lease.order.id);
  },
};

await runService({ name: "provision-engine", readConfig, run: (context) => run(context, () => [files]) });
