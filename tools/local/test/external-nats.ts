import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { makeCertificateAuthority, makeSignedCertificate } from "@muster/testkit";
import { ROOT } from "../src/root.ts";
import type { ClusterTools } from "./cluster-tools.ts";
import { type NatsForMuster, SYSTEM } from "./installed-world.ts";

const NAMESPACE = "muster-e2e-nats";
const HOST = `nats.${NAMESPACE}.svc.cluster.local`;
const IMAGE = "nats:2.15-alpine";
const NKEYS = "seeds-of-ours";
const AUTHORITY = "authority-of-ours";
const LABELS = { app: "nats" };
/** The pool of its node. A machine with its pod is not granted as a whole, and the pool of the drivers has one machine only. */
const POOL = "workers";

/**
 * Starts a NATS server outside the chart on the same cluster, by the steps of docs/real-cluster.md for your own keys. It has the default configuration, and
 * names that differ from the chart's. Disposal deletes its namespace.
 */
export async function startExternalNats(tools: ClusterTools): Promise<NatsForMuster & AsyncDisposable> {
  const { directory, env, kubectl, fileOf } = tools;
  await using starting = new AsyncDisposableStack();
  const keys = join(directory, "keys");
  await promisify(execFile)("npm", ["run", "--silent", "nats-users", "--", keys], { cwd: ROOT, env });
  const authority = await makeCertificateAuthority("ours");
  const made = await makeSignedCertificate(authority, { commonName: "nats", use: "server", names: [HOST] });
  const ca = await fileOf("ca.crt", authority.cert);
  const certificate = `--cert ${await fileOf("tls.crt", made.cert)} --key ${await fileOf("tls.key", made.key)}`;

  await kubectl(`create namespace ${NAMESPACE}`);
  starting.defer(() => kubectl(`delete namespace ${NAMESPACE} --timeout=2m`).then(() => undefined));
  const conf = join(ROOT, "deploy/nats");
  await kubectl(`-n ${NAMESPACE} create configmap conf --from-file ${conf}/nats.conf --from-file ${conf}/users.conf`);
  await kubectl(`-n ${NAMESPACE} create configmap keys --from-env-file ${keys}/public.env`);
  await kubectl(`-n ${NAMESPACE} create secret tls tls ${certificate}`);
  for (const object of server()) await kubectl(`-n ${NAMESPACE} apply -f -`, object);
  await kubectl(`-n ${NAMESPACE} rollout status deployment/nats --timeout=2m`);

  await kubectl(`apply -f ${join(ROOT, "deploy/kubernetes/namespace.yaml")}`);
  await kubectl(`-n ${SYSTEM} create secret generic ${NKEYS} --from-file ${keys}/nkeys`);
  await kubectl(`-n ${SYSTEM} create configmap ${AUTHORITY} --from-file ${ca}`);
  const all = starting.move();
  return {
    values: { enabled: false, url: `tls://${HOST}:4222`, caConfigMap: AUTHORITY, nkeysSecret: NKEYS },
    at: { namespace: NAMESPACE, service: "nats" },
    credentials: async () => ({
      seed: await readFile(join(keys, "nkeys/cli.nk"), "utf8"),
      authority: authority.cert,
    }),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function server(): readonly object[] {
  const mount = (name: string, mountPath: string) => ({ name, mountPath });
  const container = {
    name: "nats",
    image: IMAGE,
    imagePullPolicy: "IfNotPresent",
    args: ["--config", "/etc/nats/nats.conf"],
    envFrom: [{ configMapRef: { name: "keys" } }],
    readinessProbe: { httpGet: { path: "/healthz", port: 8222 }, periodSeconds: 1 },
    volumeMounts: [mount("conf", "/etc/nats"), mount("tls", "/etc/nats-tls"), mount("data", "/data")],
  };
  const volumes = [
    { name: "conf", configMap: { name: "conf" } },
    { name: "tls", secret: { secretName: "tls" } },
    { name: "data", emptyDir: {} },
  ];
  const template = {
    metadata: { labels: LABELS },
    spec: { nodeSelector: { pool: POOL }, containers: [container], volumes },
  };
  const spec = { replicas: 1, selector: { matchLabels: LABELS }, template };
  const metadata = { name: "nats" };
  return [
    { apiVersion: "apps/v1", kind: "Deployment", metadata, spec },
    { apiVersion: "v1", kind: "Service", metadata, spec: { selector: LABELS, ports: [{ port: 4222 }] } },
  ];
}
