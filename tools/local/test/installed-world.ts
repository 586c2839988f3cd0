import { execFile } from "node:child_process";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { type NatsAccess, readNatsAccess } from "@muster/bus";
import { ROOT } from "../src/root.ts";
import { makeClusterTools, type ClusterTools } from "./cluster-tools.ts";
import { CHART, runHelm } from "./helm.ts";
import { openNatsDisk } from "./nats-disk.ts";
import { forwardPort } from "./port-forward.ts";

export const SYSTEM = "muster-system";
export const WORK = "muster-work";
/** The pool of the NATS server and the drivers; its node is never stopped. */
const DRIVERS = "drivers";
/** The longest that one command may take: less than the time of a test, so that the test ends it and cleans up. */
const COMMAND_MS = 240_000;

/** Values of the installation: a lost node has consequences after seconds, not minutes. */
const VALUES = {
  workNamespace: WORK,
  rights: { slices: true },
  services: {
    "session-controller": { env: { SESSION_NODE_LOST_MS: 5000, SESSION_EXECUTORS: 0 } },
    "job-controller": {
      env: { JOB_NODE_LOST_MS: 5000, JOB_SYNC_PERIOD_MS: 2000, JOB_RESTART_BACKOFF_MS: 1000 },
    },
    "replication-farm": { env: { FARM_NODE_GRACE_MS: 1000, FARM_NODE_LOST_MS: 5000 } },
  },
};

/** Muster, installed by its chart on the user's cluster. */
export type InstalledWorld = AsyncDisposable & {
  readonly kubectl: ClusterTools["kubectl"];
  readonly fileOf: ClusterTools["fileOf"];
  readonly json: <Answer>(words: string) => Promise<Answer>;
  readonly muster: (words: string) => Promise<string>;
  /** Access with the rights of the command line. */
  readonly nats: NatsAccess;
  readonly install: () => Promise<void>;
  /** Adds values, and installs this chart instead of the present one. */
  readonly upgrade: (values: object, chart?: string) => Promise<void>;
  readonly uninstall: () => Promise<void>;
};

/** A NATS server for Muster. */
export type NatsForMuster = {
  /** `nats` of the chart's values. */
  readonly values: object;
  readonly at: { readonly namespace: string; readonly service: string };
  /** The seed of the user `cli`, and the authority of the server's certificate. Called once Muster is installed. */
  readonly credentials: () => Promise<{ readonly seed: string; readonly authority: string }>;
};

export type Installation = {
  /** Kubeconfig with all rights. */
  readonly kubeconfig: string;
  /** File with additional values, such as the registry. */
  readonly valuesFile: string | undefined;
  /** Variables of the provision-engine. */
  readonly leaseEnv: Readonly<Record<string, string>>;
  /** An external server; default: the chart's. */
  readonly nats?: NatsForMuster;
  /** Archive of the chart and path of the command of a release; default: those of this clone, with the images `muster/<service>:dev`. */
  readonly release?: { readonly chart: string; readonly command: string };
};

export async function installMuster(options: Installation): Promise<InstalledWorld> {
  const { kubeconfig, valuesFile, leaseEnv, release } = options;
  const chart = release?.chart ?? CHART;
  const command = release === undefined ? [process.execPath, join(ROOT, "apps/cli/src/main.ts")] : [release.command];
  await using starting = new AsyncDisposableStack();
  const { env, kubectl, fileOf } = starting.use(await makeClusterTools(kubeconfig));
  const nats = options.nats ?? (await startChartNats(kubeconfig, kubectl, starting));
  const base = ["--namespace", SYSTEM, "--timeout", "5m", "--wait"];
  const more = valuesFile === undefined ? [] : ["--values", valuesFile];
  const uninstall = async (): Promise<void> => {
    await runHelm(["uninstall", "muster", ...base, "--ignore-not-found", "--cascade", "foreground"], env);
  };

  await kubectl(`apply -f ${join(ROOT, "deploy/kubernetes/namespace.yaml")}`);
  await kubectl("apply -f -", { apiVersion: "v1", kind: "Namespace", metadata: { name: WORK } });
  starting.defer(() =>
    kubectl(`delete namespace ${SYSTEM} ${WORK} --ignore-not-found --timeout=2m`).then(() => undefined),
  );
  starting.defer(uninstall);
  const services = { ...VALUES.services, "provision-engine": { enabled: true, env: leaseEnv } };
  const image = release === undefined ? { repository: "muster", tag: "dev" } : {};
  const values = await fileOf("values.json", { ...VALUES, image, services, nats: nats.values });
  const install = async (): Promise<void> => {
    await runHelm(["install", "muster", chart, ...base, "--take-ownership", "--values", values, ...more], env);
  };
  await install();
  const variables = await reachNats(nats, { env, fileOf }, starting);
  const clientEnv = { ...env, ...variables };
  const all = starting.move();
  return {
    kubectl,
    json: async <Answer>(words: string) => JSON.parse(await kubectl(`${words} --output json`)) as Answer,
    muster: async (words) => {
      const [program = "", ...args] = [...command, ...words.split(" ")];
      const options = { env: clientEnv, cwd: ROOT, timeout: COMMAND_MS };
      return (await promisify(execFile)(program, args, options)).stdout;
    },
    nats: readNatsAccess({ optional: (name) => variables[name], url: () => variables.MUSTER_NATS_URL }),
    install,
    upgrade: async (changed, to = chart) => {
      const file = await fileOf("changed.json", changed);
      await runHelm(["upgrade", "muster", to, ...base, "--values", values, ...more, "--values", file], env);
    },
    uninstall,
    fileOf,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** The chart's own, on a disk of its node. */
export async function startChartNats(
  kubeconfig: string,
  kubectl: ClusterTools["kubectl"],
  starting: AsyncDisposableStack,
): Promise<NatsForMuster & { readonly storageClass: string }> {
  const { storageClass } = starting.use(await openNatsDisk(kubeconfig, DRIVERS));
  return {
    storageClass,
    values: { nodeSelector: { pool: DRIVERS }, persistence: { storageClass } },
    at: { namespace: SYSTEM, service: "nats" },
    credentials: async () => {
      const secret = await kubectl(`-n ${SYSTEM} get secret muster-nats-nkeys -o jsonpath={.data.cli\\.nk}`);
      const authority = await kubectl(`-n ${SYSTEM} get configmap muster-nats-ca -o jsonpath={.data.ca\\.crt}`);
      return { seed: Buffer.from(secret, "base64").toString(), authority };
    },
  };
}

/** Follows the notes of the chart. Returns the variables of the command line. */
export async function reachNats(
  { at, credentials }: NatsForMuster,
  { env, fileOf }: Pick<ClusterTools, "env" | "fileOf">,
  starting: AsyncDisposableStack,
): Promise<Readonly<Record<string, string>> & { readonly MUSTER_NATS_URL: string }> {
  const { seed, authority } = await credentials();
  const nkey = await fileOf("cli.nk", seed);
  await chmod(nkey, 0o600);
  const { port } = starting.use(await forwardPort(env, { ...at, port: 4222 }));
  return {
    MUSTER_NATS_URL: `tls://localhost:${port}`,
    MUSTER_NATS_NKEY_FILE: nkey,
    MUSTER_NATS_CA_FILE: await fileOf("nats-ca.crt", authority),
  };
}
