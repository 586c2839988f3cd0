import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startKubeApiServer, findKubeAssets } from "@muster/testkit";
import { makeAuthority, signLoopbackServer, type Certificate } from "../../src/apiserver/certificates.ts";
import { startApiServer } from "../../src/apiserver/start-api-server.ts";
import type { AttachOptions } from "../../src/attach-nodes.ts";

/** An API server under test, whichever it is. */
export type Cluster = AsyncDisposable & {
  readonly url: string;
  readonly token: string;
  readonly ca: string;
  readonly kubeconfig: string;
  /** The certificate of a kubelet, so that the server can read logs from it. */
  readonly kubeletCertificate: Certificate;
  /** Controllers run that collect objects without owner or namespace, and that act for workloads. */
  readonly collects: boolean;
};

/** How kubelets and the API server authenticate each other. */
type WithNodes = { readonly nodes: Pick<AttachOptions, "access" | "certificate"> };

export type ClusterCase = {
  readonly title: string;
  readonly skip: boolean;
  readonly start: () => Promise<Cluster & WithNodes>;
};

/** The servers that must answer alike. The title of a skipped one states why. */
export function clusters(): readonly ClusterCase[] {
  const assets = findKubeAssets();
  return [
    { title: "the embedded API server", skip: false, start: embedded },
    {
      title: assets.found ? "a real kube-apiserver" : `a real kube-apiserver (skipped: ${assets.reason})`,
      skip: !assets.found,
      start: real,
    },
  ];
}

async function embedded(): Promise<Cluster & WithNodes> {
  const directory = await mkdtemp(join(tmpdir(), "muster-apiserver-"));
  const defects: unknown[] = [];
  const server = await startApiServer({ directory, onError: (error) => defects.push(error) });
  return {
    ...server,
    kubeletCertificate: server.kubelet.certificate,
    nodes: { access: { bearerToken: server.kubelet.token }, certificate: server.kubelet.certificate },
    collects: true,
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
      if (defects.length > 0) throw new AggregateError(defects, "the server met defects");
    },
  };
}

async function real(): Promise<Cluster & WithNodes> {
  const server = await startKubeApiServer();
  const kubeletCertificate = await signLoopbackServer(await makeAuthority("kubelets"), "kubelet");
  const manager = startControllerManager(server.kubeconfig);
  return {
    ...server,
    kubeletCertificate,
    nodes: { access: { clientCa: server.kubeletClientCa } },
    collects: manager !== undefined,
    [Symbol.asyncDispose]: async () => {
      if (manager !== undefined) {
        const exited = once(manager, "exit");
        manager.kill("SIGKILL");
        await exited;
      }
      await server[Symbol.asyncDispose]();
    },
  };
}

const CONTROLLERS = [
  "garbage-collector-controller",
  "namespace-controller",
  "disruption-controller",
  "deployment-controller",
  "replicaset-controller",
  "statefulset-controller",
  "resourcequota-controller",
  "persistentvolumeclaim-protection-controller",
];

/** The embedded server does the work of these controllers of a real one; undefined where their program is missing. */
function startControllerManager(kubeconfig: string): ChildProcess | undefined {
  const program = join(process.env["KUBEBUILDER_ASSETS"] ?? "", "kube-controller-manager");
  if (!existsSync(program)) return undefined;
  const flags = ["--leader-elect=false", "--secure-port=0", `--controllers=${CONTROLLERS.join(",")}`];
  return spawn(program, [`--kubeconfig=${kubeconfig}`, ...flags], { stdio: "ignore" });
}
