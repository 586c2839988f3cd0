import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runService } from "@muster/service";
import { readConfig } from "../src/config.ts";
import { getOrigin, type LeaseRecord } from "../src/domain/lease.ts";
import { run } from "../src/service.ts";
import type { Workload } from "../src/types/workload.ts";
import { spoilRecord } from "./spoil.ts";

/** An engine whose debug workloads are files in a directory, where other files break calls. */
const directory = process.env["FILES"] ?? "";

const fileOf = (lease: LeaseRecord): string => join(directory, getOrigin(lease).id);

const files: Workload = {
  type: "debug",
  provision: async (lease) => {
    await writeFile(fileOf(lease), "", { flag: "a" });
    await spoilRecord(directory, lease.order.id);
    return lease.order.data;
  },
  decommission: async (lease) => {
    await rm(fileOf(lease), { force: true });
    await spoilRecord(directory, lease.order.id);
  },
};

await runService({ name: "provision-engine", readConfig, run: (context) => run(context, () => [files]) });
