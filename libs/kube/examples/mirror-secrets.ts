/**
 * A complete controller: for each ConfigMap with the label `example.com/mirror: "yes"` there is a Secret of the same name with the same data.
 * It runs as one replica, because it has no leader election. Run: node libs/kube/examples/mirror-secrets.ts KUBECONFIG
 */
import { isDeepStrictEqual } from "node:util";
import type { KubeConfig, V1ConfigMap, V1Secret } from "@kubernetes/client-node";
import { runController, workQueue, type Reconcile } from "@muster/controller";
import { makeEventRecorder, openInformer, makeKubeCalls, buildObjectKey, listWatch, loadKube } from "../src/index.ts";

const NAME = "mirror-secrets";
const labels = { "example.com/mirror": "yes" };
const labelSelector = "example.com/mirror=yes";
const log = (text: string): boolean => process.stderr.write(`${text}\n`);

async function mirrorSecrets(config: KubeConfig, stop: AbortSignal): Promise<void> {
  await using calls = makeKubeCalls(config);
  await using events = makeEventRecorder({ calls, component: NAME });
  await using maps = openInformer({
    source: listWatch<V1ConfigMap>(config, "/api/v1/configmaps", { labelSelector }),
    project: (map) => map,
  });
  await using secrets = openInformer({
    source: listWatch<V1Secret>(config, "/api/v1/secrets", { labelSelector }),
    project: (secret) => secret,
  });
  const queue = workQueue();
  maps.onChange(({ key }) => queue.add(key));
  secrets.onChange(({ key }) => queue.add(key));

  const reconcile: Reconcile = async (key, signal) => {
    const [map, secret] = [maps.get(key), secrets.get(key)];
    const [namespace = "", name = ""] = key.split("/");
    const resource = { apiVersion: "v1", plural: "secrets", namespace };
    if (map === undefined) {
      if (secret?.metadata?.uid === undefined) return undefined;
      await calls.delete(resource, name, { signal, preconditions: { uid: secret.metadata.uid } });
      return undefined;
    }
    const text = Object.entries(map.data ?? {});
    const data = Object.fromEntries(text.map(([each, value]) => [each, Buffer.from(value).toString("base64")]));
    if (secret !== undefined && isDeepStrictEqual(secret.data ?? {}, data)) return undefined;
    const about = { apiVersion: "v1", kind: "ConfigMap", namespace, name, uid: map.metadata?.uid ?? "" };
    // A stale cache costs no more than a refusal (AlreadyExists, Conflict, NotFound of a deleted object): the pass is retried.
    if (secret === undefined) {
      const ownerReferences = [{ ...about, controller: true, blockOwnerDeletion: true }];
      await calls.create(resource, { kind: "Secret", metadata: { name, labels, ownerReferences }, data }, { signal });
    } else {
      await calls.replace(resource, { ...secret, data }, { signal });
    }
    events.record(about, { type: "Normal", reason: "Mirrored", message: `the secret has ${text.length} values` });
    return undefined;
  };

  await runController({
    name: NAME,
    queue,
    reconcile,
    workers: 4,
    synced: [maps.synced, secrets.synced],
    resync: { keys: () => [...maps.list(), ...secrets.list()].map(buildObjectKey) },
    stop,
    onError: (error, key, failures) => log(`${key} failed ${failures} times: ${String(error)}`),
  });
}

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
await mirrorSecrets(loadKube(process.argv[2]), stop.signal);
