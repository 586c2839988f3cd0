import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { attachNodes, type AttachedNodes } from "../src/index.ts";
import { type Api, api as apiOf } from "./conformance/api.ts";
import { clusters } from "./conformance/clusters.ts";
import { makeKubectl } from "./conformance/run-kubectl.ts";

// The requests of kubectl to nodes, which run processes here, through either API server.
describe.each(clusters())("kubectl and the nodes behind $title", ({ title, start, skip }) => {
  let cluster: AsyncDisposable | undefined;
  let nodes: AttachedNodes | undefined;
  let connected: Api | undefined;
  const api = (): Api => {
    if (connected === undefined) throw new Error("the cluster did not start");
    return connected;
  };
  if (skip) {
    it.skip("needs its programs");
    return;
  }
  beforeAll(async () => {
    const started = await start();
    cluster = started;
    connected = apiOf(started);
    nodes = await attachNodes({ kubeconfig: started.kubeconfig, ...started.nodes, pools: [{ name: "a", nodes: 1 }] });
  });
  afterAll(async () => {
    await nodes?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });
  const kubectl = makeKubectl(api);
  const isEmbedded = title.includes("embedded");
  const run = async (name: string, script: string, more: { spec?: object; container?: object } = {}): Promise<void> => {
    const container = { name: "main", image: "program:1", command: ["sh", "-c", script], ...more.container };
    const spec = { terminationGracePeriodSeconds: 1, containers: [container], ...more.spec };
    const made = await api().post(`/api/v1/namespaces/${kubectl.namespace()}/pods`, { metadata: { name }, spec });
    if (made.code !== 201) throw new Error(made.text);
  };
  const awaitPod = (name: string, what: string): Promise<unknown> =>
    kubectl.run("wait", `--for=${what}`, `pod/${name}`, "--timeout=60s");

  describe.skipIf(kubectl.skip)(kubectl.title, () => {
    it("shows logs, while they come, and those of the run before", async () => {
      await run("ends", "echo one; sleep 0.5; echo two", { spec: { restartPolicy: "Never" } });
      await awaitPod("ends", "jsonpath={.status.containerStatuses[0].started}=true");
      expect((await kubectl.run("logs", "-f", "ends")).out).toBe("one\ntwo\n");
      expect((await kubectl.run("logs", "ends", "--tail=1", "--prefix")).out).toBe("[pod/ends/main] two\n");
      expect((await kubectl.run("logs", "-p", "ends")).err).toContain('previous terminated container "main"');
      await run("again", "echo run; exit 3");
      await awaitPod("again", "jsonpath={.status.containerStatuses[0].restartCount}=1");
      expect((await kubectl.run("logs", "-p", "again")).out).toBe("run\n");
    });

    it("describes a pod that runs, and its node", async () => {
      await run("described", "sleep 1000");
      await awaitPod("described", "condition=Ready");
      const pod = await kubectl.run("describe", "pod", "described");
      expect(pod.out).toMatch(/Node: +a-0\/127\.0\.0\.1\n/);
      expect(pod.out).toMatch(/Normal +Started +.*kubelet +spec\.containers\{main\}: Container started\n/);
      const node = await kubectl.run("describe", "node", "a-0");
      expect(node.out).toMatch(new RegExp(`Non-terminated Pods:[^]* ${kubectl.namespace()} +described `));
    });

    it("drains a cordoned and tainted node", async () => {
      await run("drained", "sleep 1000", { spec: { tolerations: [{ operator: "Exists" }] } });
      await awaitPod("drained", "condition=Ready");
      expect((await kubectl.run("drain", "a-0")).err).toContain("cannot delete");
      const drained = await kubectl.run("drain", "a-0", "--force", "--timeout=60s", "--ignore-daemonsets");
      expect(drained.out).toMatch(/pod\/drained evicted\n[^]*node\/a-0 drained\n$/);
      expect((await kubectl.run("get", "node", "a-0", "-o", "jsonpath={.spec.taints[*].key}")).out).toBe(
        "node.kubernetes.io/unschedulable",
      );
      await kubectl.run("uncordon", "a-0");
    });

    // Skipped on a kube-apiserver, because it uses SPDY, which this kubelet does not support.
    if (!isEmbedded) return;
    describe("exec", () => {
      beforeAll(async () => {
        await run("place", "cd / && exec sleep 1000", { container: { env: [{ name: "GREETING", value: "hi" }] } });
        await awaitPod("place", "condition=Ready");
      });

      it("runs a command in the container's environment and directory, and forwards its exit", async () => {
        const said = await kubectl.run("exec", "place", "--", "sh", "-c", "echo $GREETING; pwd; echo wrong >&2");
        expect([said.code, said.err]).toEqual([0, "wrong\n"]);
        expect(said.out).toMatch(/^hi\n.*\/home\n$/);
        const failed = await kubectl.run("exec", "place", "--", "sh", "-c", "exit 7");
        expect(failed).toEqual({ code: 7, out: "", err: "command terminated with exit code 7\n" });
      });

      it("carries large input in and large output out, to their ends", async () => {
        const args = [
          "-n",
          kubectl.namespace(),
          "exec",
          "-i",
          "place",
          "--",
          "sh",
          "-c",
          "tr a b | wc -c; head -c 3000000 /dev/zero",
        ];
        const child = spawn(kubectl.program, args, { env: kubectl.environment() });
        child.stdin.end("a".repeat(2_000_000));
        const out = await text(child.stdout);
        expect([out.slice(0, 8), out.length]).toEqual(["2000000\n", 3_000_008]);
      });

      it("ends the command with its client, and with its container", async () => {
        const args = ["-n", kubectl.namespace(), "exec", "place", "--", "sh", "-c", "echo $$; exec sleep 1000"];
        const begin = async (): Promise<{ pid: number; end: () => void }> => {
          const child = spawn(kubectl.program, args, { env: kubectl.environment() });
          let said = "";
          child.stdout.setEncoding("utf8").on("data", (chunk: string) => (said += chunk));
          await until("the command runs", () => said.endsWith("\n"));
          return { pid: Number(said), end: () => child.kill() };
        };
        const first = await begin();
        first.end();
        await until("it ended with its client", () => !isAlive(first.pid));
        const second = await begin();
        await kubectl.run("delete", "pod", "place", "--now");
        await until("it ended with its container", () => !isAlive(second.pid));
        second.end();
      });

      it("names the missing part: a program, a container, a terminal", async () => {
        await run("plain", "sleep 1000");
        await awaitPod("plain", "condition=Ready");
        const refusal = async (...args: string[]): Promise<string> => (await kubectl.run("exec", ...args)).err;
        expect(await refusal("plain", "--", "no-such-program")).toContain("no-such-program");
        expect(await refusal("plain", "-c", "other", "--", "true")).toContain(
          "container other is not valid for pod plain",
        );
        const tty = await api().get(
          `/api/v1/namespaces/${kubectl.namespace()}/pods/plain/exec?command=sh&tty=true&stdin=true`,
        );
        expect([tty.code, tty.body["message"]]).toEqual([400, expect.stringContaining("a terminal is not supported")]);
        expect(await refusal("absent", "--", "true")).toBe('Error from server (NotFound): pods "absent" not found\n');
      });

      it("refuses unsupported features by name", async () => {
        const refusal = async (...args: string[]): Promise<string> => (await kubectl.run(...args)).err;
        expect(await refusal("attach", "plain")).toContain("does not support attach");
        expect(await refusal("port-forward", "plain", "0:80")).toContain("does not support portforward");
        expect(await refusal("debug", "plain", "--image=program:1")).toContain(
          "ephemeral containers are disabled for this cluster",
        );
      });
    });
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
