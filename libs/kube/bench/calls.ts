import { CoreV1Api, type V1Pod } from "@kubernetes/client-node";
import { startKubeApiServer, findKubeAssets, makeKubeClient, selectSize } from "@muster/testkit";
import { makeKubeCalls, loadKube } from "../src/index.ts";

const CREATIONS = selectSize(1000, 50);
const ROUNDS = selectSize(3, 1);
const IN_FLIGHT = 32;
const TIMEOUT_MS = 30_000;

/** Creates pods on a real kube-apiserver with client-node and with makeKubeCalls, in turn. The server is another process, so its time is not counted. */
export async function compareCalls(): Promise<void> {
  const assets = findKubeAssets();
  if (!assets.found) {
    console.log(`skipped: ${assets.reason}`);
    return;
  }
  await using server = await startKubeApiServer();
  const config = loadKube(server.kubeconfig);
  const api = makeKubeClient(config, CoreV1Api, { timeoutMs: TIMEOUT_MS });
  await using calls = makeKubeCalls(config, { timeoutMs: TIMEOUT_MS });
  const pods = { apiVersion: "v1", plural: "pods", namespace: "default" };
  const ways: Readonly<Record<string, (pod: V1Pod) => Promise<V1Pod>>> = {
    "client-node": (body) => api.createNamespacedPod({ namespace: "default", body }),
    kubeCalls: (pod) => calls.create(pods, pod),
    "kubeCalls, answer unread": (pod) => calls.create(pods, pod, { isAnswerUnread: true }),
  };
  let made = 0;
  const next = (): V1Pod => memberPod(`bench-${made++}`);
  for (const create of Object.values(ways)) await measure(create, next, CREATIONS / 5);
  const all = new Map<string, { cpuMs: number; rate: number }[]>(Object.keys(ways).map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [name, create] of Object.entries(ways)) all.get(name)?.push(await measure(create, next, CREATIONS));
  }
  console.log(`${CREATIONS} creations, ${IN_FLIGHT} in flight; the median of ${ROUNDS} rounds in turns`);
  const median = (name: string, of: "cpuMs" | "rate"): number =>
    (all.get(name) ?? []).map((round) => round[of]).sort((one, two) => one - two)[Math.floor(ROUNDS / 2)] ?? 0;
  for (const name of all.keys()) {
    const ratio = median(name, "cpuMs") / median("client-node", "cpuMs");
    console.log(
      `${name.padEnd(24)} ${median(name, "cpuMs").toFixed(3)} ms of processor time a pod  ${Math.round(median(name, "rate"))}/s  ratio ${ratio.toFixed(2)}`,
    );
  }
}

async function measure(create: (pod: V1Pod) => Promise<V1Pod>, next: () => V1Pod, count: number) {
  const cpu = process.cpuUsage();
  const startedMs = performance.now();
  let left = count;
  const worker = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await create(next());
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  const { user, system } = process.cpuUsage(cpu);
  return { cpuMs: (user + system) / 1000 / count, rate: count / ((performance.now() - startedMs) / 1000) };
}

/** A pod as the job controller builds it. */
function memberPod(name: string): V1Pod {
  const owner = { apiVersion: "muster.dev/v1", kind: "Job", name: "bench", uid: "bench" };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: "default",
      labels: { "muster.dev/owner": "bench", "muster.dev/role": "worker", "muster.dev/index": "0" },
      ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: true }],
    },
    spec: {
      automountServiceAccountToken: false,
      restartPolicy: "Never",
      containers: [
        {
          name: "main",
          image: "busybox",
          command: ["true"],
          env: Array.from({ length: 8 }, (_, at) => ({ name: `NAME_${at}`, value: `value ${at}` })),
          resources: { requests: { cpu: "1", memory: "1Gi" } },
        },
      ],
    },
  };
}
