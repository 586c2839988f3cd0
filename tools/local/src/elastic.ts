import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DevClusterOptions } from "@muster/devcluster";
import { parse, stringify } from "yaml";

/** Pools of the embedded cluster that grow with what is asked of them. */
export type Elastic = {
  /** Options of the small cloud that machines come from: see the README of tools/devcluster. */
  readonly machines: NonNullable<DevClusterOptions["machines"]>;
  /** As in the file of pools of the node-scaler, without their provider. */
  readonly pools: readonly (Readonly<Record<string, unknown>> & { readonly name: string; readonly max: number })[];
};

/** Where the cloud listens; it says so when it has started. */
export type Cloud = { readonly url: string; readonly tokenFile: string };

/** Nodes of the embedded cluster of `npm start` and of docker-compose.yml. */
export const POOLS = { drivers: 2, workers: 6 };

/** What both have beside: machines that boot in about two seconds, and go half a minute after they were last needed. */
export const ELASTIC: Elastic = {
  machines: {
    types: [
      { name: "small", cpu: "4", memory: "8Gi" },
      { name: "large", cpu: "16", memory: "64Gi" },
    ],
    bootMs: { from: 1500, to: 2500 },
  },
  pools: [
    {
      name: "elastic",
      max: 8,
      instanceTypes: [
        { name: "small", cpu: "4", memory: "8Gi" },
        { name: "large", cpu: "16", memory: "64Gi" },
      ],
      idle: "30s",
    },
  ],
};

/** Fit for machines that boot in seconds; the defaults are meant for those that take minutes. */
export const INTERVALS = {
  NODE_SCALER_POOL_INTERVAL_MS: "1500",
  NODE_SCALER_HEARTBEAT_INTERVAL_MS: "1200",
  NODE_SCALER_CLIENT_TIMEOUT_MS: "1000",
  NODE_SCALER_REAPER_INTERVAL_MS: "1000",
  NODE_SCALER_SCAN_INTERVAL_MS: "5000",
};
const PROVIDER = "cloud";

/** Writes the options of the cloud for the embedded cluster; returns the file. */
export async function writeMachinesFile(directory: string, { machines }: Elastic): Promise<string> {
  const file = join(directory, "machines.yaml");
  await writeFile(file, stringify(machines));
  return file;
}

/** Writes the file of pools for the node-scaler; returns the environment with which it is found. */
export async function writePoolsFile(
  directory: string,
  { pools }: Elastic,
  { url, tokenFile }: Cloud,
): Promise<Record<string, string>> {
  const file = join(directory, "pools.yaml");
  const providers = { [PROVIDER]: { kind: "local", url, tokenFile } };
  await writeFile(file, stringify({ providers, pools: pools.map((pool) => ({ ...pool, provider: PROVIDER })) }));
  return { ...INTERVALS, NODE_SCALER_FILE: file };
}

/** Writes into the directory what a node-scaler elsewhere needs for the cloud: the file of pools, and the token beside it. */
export async function publishCloud(directory: string, elastic: Elastic, { url, tokenFile }: Cloud): Promise<void> {
  const copy = join(directory, "cloud.token");
  await copyFile(tokenFile, copy);
  await writePoolsFile(directory, elastic, { url, tokenFile: copy });
}

/** How many machines each pool of a file of pools may have. What the node-scaler would refuse in it is left to the node-scaler. */
export async function readPoolsFile(file: string): Promise<Readonly<Record<string, number>>> {
  const content = parse(await readFile(file, "utf8")) as {
    readonly pools?: readonly { readonly name: string; readonly max: number }[];
  } | null;
  return Object.fromEntries(content?.pools?.map(({ name, max }) => [name, max]) ?? []);
}

/** What the embedded cluster says when it has started; undefined for another line, or without a cloud. */
export function readCloud(line: string): Cloud | undefined {
  const { machines } = JSON.parse(line) as { readonly machines?: Cloud };
  return machines;
}
