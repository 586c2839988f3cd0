import { once } from "node:events";
import { join } from "node:path";
import { startDevCluster } from "@muster/devcluster";
import { readEnv, runService } from "@muster/service";
import { installDefinitions, installLeaseRole } from "../../definitions.ts";
import { ELASTIC, POOLS, publishCloud } from "../../elastic.ts";

type Config = {
  /** Directory with all state of the cluster; a restart continues with it. */
  readonly directory: string;
  /** The folder with the files for clients: the kubeconfig, the pools file, and the token of the small cloud. */
  readonly access: string;
  readonly host: string;
  readonly port: number;
  readonly cloudPort: number;
  /** A copy of deploy/: the resource definitions, and the role that leases need. */
  readonly manifests: string;
  /** PATH for the commands of pods. */
  readonly path: string;
};

function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const PORTS = { min: 1, max: 65_535 };
  return readEnv(env, (read) => ({
    directory: read.text("DEV_CLUSTER_DIRECTORY", "/var/lib/dev-cluster"),
    access: read.text("DEV_CLUSTER_ACCESS_DIRECTORY", "/var/run/dev-cluster"),
    host: read.text("DEV_CLUSTER_HOST", "dev-cluster"),
    port: read.integer("DEV_CLUSTER_PORT", { fallback: 6443, ...PORTS }),
    cloudPort: read.integer("DEV_CLUSTER_CLOUD_PORT", { fallback: 6444, ...PORTS }),
    manifests: read.text("DEV_CLUSTER_MANIFESTS", join(import.meta.dirname, "deploy")),
    path: read.text("PATH"),
  }));
}

await runService<Config>({
  name: "dev-cluster",
  readConfig,
  run: async ({ config, logger, signal, readyWhen }) => {
    const { directory, access, host, port, manifests, path } = config;
    await using cluster = await startDevCluster({
      directory,
      host,
      port,
      path,
      persist: true,
      kubeconfig: join(access, "kubeconfig"),
      pools: Object.entries(POOLS).map(([name, nodes]) => ({ name, nodes })),
      machines: { ...ELASTIC.machines, port: config.cloudPort },
      onError: (error, doing) => logger.warn({ err: error, doing }, "a controller of the cluster failed, and retries"),
    });
    const own = cluster.server.kubeconfig;
    await installDefinitions(own, join(manifests, "crds"), signal);
    await installLeaseRole(own, join(manifests, "kubernetes/slices.yaml"), signal);
    if (cluster.machines !== undefined) await publishCloud(access, ELASTIC, cluster.machines);
    readyWhen("cluster", () => undefined);
    if (!signal.aborted) await once(signal, "abort");
  },
});
