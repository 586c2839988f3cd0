import { parseArgs } from "node:util";
import { throwFault } from "@muster/faults";
import { checkDnsLabel } from "@muster/names";
import type { NodePool } from "./attach-nodes.ts";
import type { DevClusterOptions } from "./dev-cluster.ts";
import { readMachinesFile } from "./machines/read-machines-file.ts";

const USAGE =
  "--directory DIR --pools NAME=NODES[,NAME=NODES...] [--kubeconfig FILE] [--port PORT] [--persist] [--simulated] [--machines FILE]";

/** Reads the command line of a cluster in its own process. Throws one invalid_request that names every problem. */
export function readDevClusterArguments(args: readonly string[]): DevClusterOptions {
  const { values } = parse(args);
  const problems: string[] = [];
  if (values.directory === undefined) problems.push("--directory is missing");
  if (values.pools === undefined) problems.push("--pools is missing");
  const pools = (values.pools ?? "").split(",").flatMap((text) => readPool(text, problems));
  const names = pools.map((pool) => pool.name);
  if (new Set(names).size < names.length) problems.push("--pools names a pool twice");
  const port = Number(values.port ?? 0);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) problems.push(`--port is "${values.port ?? ""}"`);
  if (problems.length > 0) wrong(problems.join("; "));
  return {
    directory: values.directory ?? "",
    pools,
    port,
    simulated: values.simulated ?? false,
    persist: values.persist ?? false,
    ...(values.machines === undefined ? {} : { machines: readMachinesFile(values.machines) }),
    ...(values.kubeconfig === undefined ? {} : { kubeconfig: values.kubeconfig }),
  };
}

type Values = {
  directory?: string;
  pools?: string;
  kubeconfig?: string;
  port?: string;
  persist?: boolean;
  simulated?: boolean;
  machines?: string;
};

function parse(args: readonly string[]): { values: Values } {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  try {
    const files = { directory: text, kubeconfig: text, machines: text };
    const options = { ...files, pools: text, port: text, persist: flag, simulated: flag };
    return parseArgs({ args: [...args], options });
  } catch (error) {
    return wrong(error instanceof Error ? error.message : String(error));
  }
}

function readPool(text: string, problems: string[]): NodePool[] {
  if (text === "") return [];
  const [, name = "", nodes = ""] = /^([^=]*)=(\d+)$/.exec(text.trim()) ?? [];
  const isName = checkDnsLabel("pool", name) === undefined;
  if (isName && nodes !== "") return [{ name, nodes: Number(nodes) }];
  problems.push(`--pools has "${text}"; a name and a number of nodes such as workers=3 is needed`);
  return [];
}

function wrong(reason: string): never {
  return throwFault({ code: "invalid_request", field: "arguments", reason: `${reason}; usage: ${USAGE}` });
}
