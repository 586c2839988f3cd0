import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { processEnv, until } from "@muster/testkit";
import { ROOT } from "../src/stack.ts";
import { CHART, helm } from "./helm.ts";

export const SYSTEM = "muster-system";
export const WORK = "muster-work";
/** Where the server of NATS and the drivers are; its node is never stopped. */
const DRIVERS = "drivers";

/** Values of the installation: what a node that is gone means comes after seconds, not after minutes. */
const VALUES = {
  workNamespace: WORK,
  image: { tag: "dev" },
  rights: { slices: true },
  nats: { nodeSelector: { pool: DRIVERS }, persistence: { enabled: false } },
  services: {
    "session-controller": { env: { SESSION_NODE_LOST_MS: 5000, SESSION_EXECUTORS: 0 } },
    "job-controller": {
      env: { JOB_NODE_LOST_MS: 5000, JOB_SYNC_PERIOD_MS: 2000, JOB_RESTART_BACKOFF_MS: 1000 },
    },
    "replication-farm": { env: { FARM_NODE_GRACE_MS: 1000, FARM_NODE_LOST_MS: 5000 } },
  },
};

/** Muster as its chart installs it on a cluster of the user's. */
export type InstalledWorld = AsyncDisposable & {
  /** Resolves with what it printed; rejects where it does not end with 0. */
  readonly kubectl: (words: string, input?: object) => Promise<string>;
  readonly json: <Answer>(words: string) => Promise<Answer>;
  readonly muster: (words: string) => Promise<string>;
  readonly upgrade: (values: object) => Promise<void>;
  readonly uninstall: () => Promise<void>;
  /** A file with this in it. */
  readonly fileOf: (name: string, content: object | string) => Promise<string>;
};

export type Installation = {
  /** Of the cluster, with all rights. */
  readonly kubeconfig: string;
  /** Further values, such as where the images are. */
  readonly valuesFile: string | undefined;
  /** Of the provision-engine. */
  readonly leaseEnv: Readonly<Record<string, string>>;
};

export async function installMuster(options: Installation): Promise<InstalledWorld> {
  const { kubeconfig, valuesFile, leaseEnv } = options;
  await using starting = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-installed-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const env: NodeJS.ProcessEnv = { ...processEnv(), KUBECONFIG: kubeconfig, HOME: directory };
  const kubectl: InstalledWorld["kubectl"] = async (words, input) => {
    const running = promisify(execFile)("kubectl", words.split(" "), { env, maxBuffer: 64 * 1024 * 1024 });
    if (input !== undefined) running.child.stdin?.end(JSON.stringify(input));
    return (await running).stdout;
  };
  const fileOf: InstalledWorld["fileOf"] = async (name, content) => {
    const file = join(directory, name);
    await writeFile(file, typeof content === "string" ? content : JSON.stringify(content));
    return file;
  };
  const base = ["--namespace", SYSTEM, "--timeout", "5m", "--wait"];
  const more = valuesFile === undefined ? [] : ["--values", valuesFile];
  const uninstall = async (): Promise<void> => {
    await helm(["uninstall", "muster", ...base, "--ignore-not-found", "--cascade", "foreground"], env);
  };

  await kubectl(`apply -f ${join(ROOT, "deploy/kubernetes/namespace.yaml")}`);
  await kubectl("apply -f -", { apiVersion: "v1", kind: "Namespace", metadata: { name: WORK } });
  starting.defer(() =>
    kubectl(`delete namespace ${SYSTEM} ${WORK} --ignore-not-found --timeout=2m`).then(() => undefined),
  );
  starting.defer(uninstall);
  const services = { ...VALUES.services, "provision-engine": { env: leaseEnv } };
  const values = await fileOf("values.json", { ...VALUES, services });
  await helm(["install", "muster", CHART, ...base, "--take-ownership", "--values", values, ...more], env);
  const clientEnv = await reachNats(directory, env, kubectl, starting);
  const all = starting.move();
  return {
    kubectl,
    json: async <Answer>(words: string) => JSON.parse(await kubectl(`${words} --output json`)) as Answer,
    muster: async (words) => {
      const args = [join(ROOT, "apps/cli/src/main.ts"), ...words.split(" ")];
      return (await promisify(execFile)(process.execPath, args, { env: clientEnv, cwd: ROOT })).stdout;
    },
    upgrade: async (changed) => {
      const file = await fileOf("changed.json", changed);
      await helm(["upgrade", "muster", CHART, ...base, "--values", values, ...more, "--values", file], env);
    },
    uninstall,
    fileOf,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** As the chart's notes say. Returns the environment of the command line. */
async function reachNats(
  directory: string,
  env: NodeJS.ProcessEnv,
  kubectl: InstalledWorld["kubectl"],
  starting: AsyncDisposableStack,
): Promise<NodeJS.ProcessEnv> {
  const secret = await kubectl(`-n ${SYSTEM} get secret muster-nats-nkeys -o jsonpath={.data.cli\\.nk}`);
  const authority = await kubectl(`-n ${SYSTEM} get configmap muster-nats-ca -o jsonpath={.data.ca\\.crt}`);
  const nkey = join(directory, "cli.nk");
  const ca = join(directory, "nats-ca.crt");
  await writeFile(nkey, Buffer.from(secret, "base64"), { mode: 0o600 });
  await writeFile(ca, authority);
  const forward = spawn("kubectl", ["-n", SYSTEM, "port-forward", "service/nats", ":4222"], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(forward, "exit");
  starting.defer(async () => {
    forward.kill();
    await ended;
  });
  let said = "";
  forward.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    said += chunk;
  });
  const port = await until("the port is forwarded", () => /127\.0\.0\.1:(\d+) ->/.exec(said)?.[1], {
    timeoutMs: 60_000,
  });
  return {
    ...env,
    MUSTER_NATS_URL: `tls://localhost:${port}`,
    MUSTER_NATS_NKEY_FILE: nkey,
    MUSTER_NATS_CA_FILE: ca,
  };
}
