import { spawn } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { findFault } from "@muster/faults";
import { chooseApiAddress } from "./api-address.ts";
import { ELASTIC, POOLS } from "./elastic.ts";
import { ROOT } from "./root.ts";
import { type Stack, startStack } from "./stack.ts";

const HELP = `Starts Muster on this machine, runs an example session, prints its result, and stops everything.

  npm start                                run examples/http-benchmark.yaml
  npm start -- --keep                      leave everything running until Ctrl-C
  npm start -- --kubeconfig FILE           use this cluster instead of the embedded one; its nodes need the label pool=NAME
  npm start -- --install-definitions       with --kubeconfig: install the resource definitions (deploy/crds) in the cluster
  npm start -- --nats-url URL              use this NATS server (token: MUSTER_LOCAL_NATS_TOKEN); no other Muster may use it
  npm start -- --keep --api-port PORT      use this port for the HTTP API; without it 8480, or a free port where 8480 is in use
  npm start -- examples/failing-session.yaml

Muster listens on free ports of this machine. \`npx muster\` in this folder finds them.
All files are in .muster (or MUSTER_LOCAL_DIRECTORY). Each start empties this directory.
`;

const stop = new AbortController();
let signals = 0;
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(name, () => {
    signals += 1;
    if (signals === 1) print("stopping");
    stop.abort();
  });
}
process.exitCode = await main();

async function main(): Promise<number> {
  let options;
  try {
    options = parseArgs({
      allowPositionals: true,
      options: {
        keep: { type: "boolean" },
        kubeconfig: { type: "string" },
        "install-definitions": { type: "boolean" },
        "nats-url": { type: "string" },
        "api-port": { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    print(`error: ${error instanceof Error ? error.message : String(error)}\n\n${HELP}`);
    return 2;
  }
  const { values, positionals } = options;
  if (values.help === true) {
    process.stdout.write(HELP);
    return 0;
  }
  const [example = "examples/http-benchmark.yaml"] = positionals;
  for (const file of [resolve(ROOT, example), values.kubeconfig]) {
    if (file === undefined || statSync(file, { throwIfNoEntry: false })?.isFile() === true) continue;
    print(`error: file ${file} does not exist`);
    return 2;
  }
  // Other programs read paths in it from their own working directories.
  const directory = resolve(process.env["MUSTER_LOCAL_DIRECTORY"] ?? join(ROOT, ".muster"));
  try {
    await using stack = await startStack({
      directory,
      ...(values.kubeconfig !== undefined && { kubeconfig: resolve(values.kubeconfig) }),
      ...(values["install-definitions"] === true && { installDefinitions: true }),
      ...(values["nats-url"] !== undefined && {
        nats: { url: values["nats-url"], token: process.env["MUSTER_LOCAL_NATS_TOKEN"] },
      }),
      ...(values.keep === true && { apiAddress: await chooseApiAddress(values["api-port"]) }),
      pools: POOLS,
      elastic: ELASTIC,
      baseEnv: process.env,
      signal: stop.signal,
      onProgress: print,
    });
    const code = await runExample(stack, example);
    if (values.keep === true && !stop.signal.aborted) {
      process.stdout.write(await usage(stack, directory));
      const broken = await Promise.race([stack.broken, once(stop.signal, "abort")]);
      if (typeof broken !== "string") return 0;
      print(`error: ${broken}; stopping`);
      return 1;
    }
    if (stop.signal.aborted) return 130;
    print(
      "\nNext: `npm start -- --keep` leaves Muster running. Then `npx muster run examples/training-job.yaml` runs a job.",
    );
    return code;
  } catch (error) {
    if (stop.signal.aborted) return 130;
    if (findFault(error)?.code === "already_exists") {
      print(
        `error: Muster already runs in ${directory}. Use it with \`npx muster\`, or stop it with Ctrl-C in its terminal.`,
      );
    } else print(`error: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  }
}

/** Runs `muster run` in its own process group, so that Ctrl-C reaches only this process. */
async function runExample(stack: Stack, example: string): Promise<number> {
  print(`muster run ${example}\n`);
  const cli = spawn(process.execPath, [join(ROOT, "apps/cli/src/main.ts"), "run", resolve(ROOT, example)], {
    env: stack.clientEnv,
    detached: true,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const end = (): void => void cli.kill("SIGKILL");
  stop.signal.addEventListener("abort", end);
  if (stop.signal.aborted) end();
  const [code] = (await once(cli, "exit")) as [number | null];
  stop.signal.removeEventListener("abort", end);
  return code ?? 1;
}

async function usage(stack: Stack, directory: string): Promise<string> {
  const kubeconfig = relative(process.cwd(), stack.kubeconfig);
  // A browser keeps the fragment to itself: the token is in no request line and no log.
  const token = (await readFile(stack.api.tokenFile, "utf8")).trim();
  return `
Muster is running. The web console and the HTTP API, with the token of their owner:
  ${stack.api.url}/#token=${token}
In another terminal:
  npx muster pools
  npx muster run examples/failing-session.yaml
  npx muster run examples/training-job.yaml
  npx muster run examples/elastic-benchmark.yaml
  npx muster nodes
  npx muster get sessions
  npx muster get jobs
  npx muster keys new && npx muster lease order -f examples/leases/debug.yaml --wait
  kubectl --kubeconfig ${kubeconfig} get pods --watch
The logs are in ${relative(process.cwd(), directory)}/logs. Ctrl-C here stops everything.
`;
}

function print(line: string): void {
  process.stderr.write(`${line}\n`);
}
