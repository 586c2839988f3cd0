import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DevClusterOptions } from "@muster/devcluster";
import { parse, stringify } from "yaml";

/** Elastic pools of the embedded cluster. */
export type Elastic = {
  /** Options of the small cloud that boots the machines: see the README of tools/devcluster. */
  readonly machines: NonNullable<DevClusterOptions["machines"]>;
  /** Pools as in the pools file of the node-scaler, without the provider. */
  readonly pools: readonly (Readonly<Record<string, unknown>> & { readonly name: string; readonly max: number })[];
};

/** The address of the cloud, from the start line of the embedded cluster. */
export type Cloud = { readonly url: string; readonly tokenFile: string };

/** Nodes of the embedded cluster of `npm start` and of docker-compose.yml. */
export const POOLS = { drivers: 2, workers: 6 };

/** The elastic pool of both: machines boot in about two seconds and end after half a minute without work. */
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

/** Intervals for machines that boot in seconds; the defaults are for machines that take minutes. */
export const INTERVALS = {
  NODE_SCALER_POOL_INTERVAL_MS: "1500",
  NODE_SCALER_HEARTBEAT_INTERVAL_MS: "1200",
  NODE_SCALER_CLIENT_TIMEOUT_MS: "1000",
  NODE_SCALER_REAPER_INTERVAL_MS: "1000",
  NODE_SCALER_SCAN_INTERVAL_MS: "5000",
};
const PROVIDER = "cloud";

/** Writes the options of the cloud; returns the file. */
export async function writeMachinesFile(directory: string, { machines }: Elastic): Promise<string> {
  const file = join(directory, "machines.yaml");
  await writeFile(file, stringify(machines));
  return file;
}

/** Writes the pools file of the node-scaler; returns the variables of the node-scaler. */
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

/** Writes the pools file and the token into the directory, for a node-scaler in another container. */
export async function publishCloud(directory: string, elastic: Elastic, { url, tokenFile }: Cloud): Promise<void> {
  const copy = join(directory, "cloud.token");
  await copyFile(tokenFile, copy);
  await writePoolsFile(directory, elastic, { url, tokenFile: copy });
}

/** Maximum number of machines by pool, from a pools file. Validation is the node-scaler's. */
export async function readPoolsFile(file: string): Promise<Readonly<Record<string, number>>> {
  const content = parse(await readFile(file, "utf8")) as {
    readonly pools?: readonly { readonly name: string; readonly max: number }[];
  } | null;
  return Object.fromEntries(content?.pools?.map(({ name, max }) => [name, max]) ?? []);
}

/** Reads the cloud from the start line of the embedded cluster; undefined where it has none. */
export function readCloud(line: string): Cloud | undefined {
  const { machines } = JSON.parse(line) as { readonly machines?: Cloud };
  return machines;
}
