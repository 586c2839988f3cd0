import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { get } from "node:https";
import { dirname, join } from "node:path";
import type { V1PodSpec } from "@kubernetes/client-node";
import { toKubeFault } from "@muster/kube";
import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { startSuiteNode, listProcesses } from "./kubelet-world.ts";

for (const { title, skip, start } of API_SERVERS) {
  describe.skipIf(skip)(`the kubelet against ${title}`, () => {
    // The clock runs, and a test may push it ahead.
    let aheadMs = 0;
    const suite = startSuiteNode(start, () => Date.now() + aheadMs);
    const { create, run, read, inPhase, ready, gone, remove, logs, follow, reasonsOf, watchStatus, here } = suite;

    it("registers a ready node with labels, capacity and the port for logs, without the taint of a new node", async () => {
      const node = await here().api.readNode({ name: "a-0" });
      expect(node.metadata?.labels).toMatchObject({ pool: "a", "kubernetes.io/hostname": "a-0" });
      expect(node.spec?.taints).toBeUndefined();
      expect(node.status).toMatchObject({
        allocatable: { cpu: "4", memory: "8Gi", "ephemeral-storage": "100Gi", pods: "110" },
        daemonEndpoints: { kubeletEndpoint: { Port: here().kubelet.port } },
        nodeInfo: { kubeletVersion: "v1.36.0-muster" },
      });
      expect(node.status?.addresses).toContainEqual({ type: "InternalIP", address: "127.0.0.1" });
      expect(node.status?.conditions?.find((each) => each.type === "Ready")?.status).toBe("True");
    });

    it.each<[string, string[], string, number, string]>([
      ["succeeds", ["true"], "Succeeded", 0, "Completed"],
      ["exits with 3", ["sh", "-c", "exit 3"], "Failed", 3, "Error"],
      // `$$$$` is `$$` once the kubelet has expanded it.
      ["is killed by a signal", ["sh", "-c", "kill -TERM $$$$"], "Failed", 143, "Error"],
      ["is not found", ["no-such-command"], "Failed", 128, "StartError"],
    ])("reports a command that %s", async (_title, command, phase, exitCode, reason) => {
      await run("pod", command);
      const pod = await inPhase("pod", phase);
      expect(pod.status?.containerStatuses).toMatchObject([
        { name: "main", ready: false, restartCount: 0, state: { terminated: { exitCode, reason } } },
      ]);
      const ready = pod.status?.conditions?.find((each) => each.type === "Ready");
      expect(ready).toMatchObject({ status: "False", reason: phase === "Failed" ? "PodFailed" : "PodCompleted" });
    });

    it("fails a container without a command immediately, and names the kind of cluster that runs images", async () => {
      await run("pod", []);
      const pod = await inPhase("pod", "Failed");
      const end = pod.status?.containerStatuses?.[0]?.state?.terminated;
      expect(end).toMatchObject({ exitCode: 128, reason: "StartError" });
      expect(end?.message).toContain("Set `command`, or use a real cluster (`npm start -- --kubeconfig FILE`)");
    });

    it("restarts with a back-off that doubles, and counts", async () => {
      await run("pod", ["sh", "-c", "exit 7"], { restartPolicy: "Always" });
      for (const [restarts, seconds] of [
        [1, 10],
        [2, 20],
      ] as const) {
        const status = await until(`the container waits for restart ${restarts + 1}`, async () => {
          const container = (await read("pod")).status?.containerStatuses?.[0];
          return container?.restartCount === restarts && container.state?.waiting !== undefined && container;
        });
        expect(status.state?.waiting?.reason).toBe("CrashLoopBackOff");
        expect(status.state?.waiting?.message).toContain(`back-off ${seconds}s restarting failed container=main`);
        expect(status.lastState?.terminated).toMatchObject({ exitCode: 7, reason: "Error" });
        aheadMs += seconds * 1000;
      }
      expect((await read("pod")).status?.phase).toBe("Running");
      await remove("pod");
    });

    it("starts the next container of the pod only after its init containers, in order", async () => {
      const init = (name: string): NonNullable<V1PodSpec["initContainers"]>[number] => ({
        name,
        image: "none",
        command: ["sh", "-c", `echo ${name} >> order`],
      });
      await run("pod", ["sh", "-c", "cat order; ls $HOME"], { initContainers: [init("one"), init("two")] });
      const pod = await inPhase("pod", "Succeeded");
      expect(pod.status?.initContainerStatuses).toMatchObject([{ ready: true }, { ready: true }]);
      expect(await logs("pod")).toBe("one\ntwo\norder\n");
    });

    it("gives SIGTERM and the whole grace period, then deletes the pod with its last exit code", async () => {
      const script = `process.on("SIGTERM", () => { console.log("ending"); process.exit(0); }); console.log("up"); setInterval(() => {}, 1000);`;
      await run("pod", ["node", "-e", script], { terminationGracePeriodSeconds: 30 });
      await until("it is up", async () => (await logs("pod")) === "up\n");
      const seen = watchStatus("pod");
      await here().api.deleteNamespacedPod({ name: "pod", namespace: here().namespace });
      await gone("pod");
      expect(await seen).toMatchObject({ phase: "Succeeded", exitCode: 0 });
    });

    it("kills processes that outlast the grace period, with all descendants", async () => {
      const script = `trap "" TERM; setsid sh -c 'trap "" TERM; while :; do sleep 1; done' & echo up; while :; do sleep 1; done`;
      await run("pod", ["sh", "-c", script], { terminationGracePeriodSeconds: 1 });
      await until("it is up", async () => (await logs("pod")) === "up\n");
      const uid = (await read("pod")).metadata?.uid ?? "";
      expect((await listProcesses(uid)).length).toBeGreaterThanOrEqual(2);
      const seen = watchStatus("pod");
      await here().api.deleteNamespacedPod({ name: "pod", namespace: here().namespace });
      await gone("pod");
      expect(await seen).toMatchObject({ phase: "Failed", exitCode: 137 });
      expect(await listProcesses(uid)).toEqual([]);
    });

    it("ends the processes of a pod that is deleted without grace", async () => {
      await run("pod", ["sleep", "1000"]);
      const uid = (await inPhase("pod", "Running")).metadata?.uid ?? "";
      await here().api.deleteNamespacedPod({ name: "pod", namespace: here().namespace, gracePeriodSeconds: 0 });
      await gone("pod");
      await until("its process has ended", async () => (await listProcesses(uid)).length === 0);
    });

    it("ends a pod at its deadline", async () => {
      await run("pod", ["sleep", "1000"], { activeDeadlineSeconds: 600, restartPolicy: "Always" });
      await inPhase("pod", "Running");
      aheadMs += 600_000;
      const pod = await inPhase("pod", "Failed");
      expect(pod.status?.reason).toBe("DeadlineExceeded");
    });

    it("passes variables from fields, ConfigMaps and Secrets, and none of its own environment", async () => {
      const { api, namespace } = here();
      await api.createNamespacedConfigMap({
        namespace,
        body: { metadata: { name: "settings" }, data: { LEVEL: "high" } },
      });
      await api.createNamespacedSecret({
        namespace,
        body: { metadata: { name: "token" }, stringData: { value: "s3cret" } },
      });
      process.env["KUBELET_SECRET"] = "must not leak";
      await create("pod", {
        containers: [
          {
            name: "main",
            image: "none",
            command: ["sh", "-c", 'env; echo "argument $0"'],
            args: ["$(NAME)-$(UNKNOWN)"],
            env: [
              { name: "NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
              { name: "POD_IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
              { name: "ROLE", valueFrom: { fieldRef: { fieldPath: "metadata.labels['role']" } } },
              { name: "LEVEL", valueFrom: { configMapKeyRef: { name: "settings", key: "LEVEL" } } },
              { name: "TOKEN", valueFrom: { secretKeyRef: { name: "token", key: "value" } } },
              { name: "URL", value: "http://$(POD_IP)/" },
            ],
          },
        ],
      });
      const pod = await inPhase("pod", "Succeeded");
      const lines = (await logs("pod")).trim().split("\n");
      expect(lines).toContain("argument pod-$(UNKNOWN)");
      const env = new Map(
        lines.map((line) => {
          const at = line.indexOf("=");
          return [line.slice(0, at), line.slice(at + 1)];
        }),
      );
      expect(Object.fromEntries(env)).toMatchObject({
        NAME: "pod",
        POD_IP: pod.status?.podIP,
        ROLE: "tested",
        LEVEL: "high",
        TOKEN: "s3cret",
        URL: `http://${pod.status?.podIP ?? ""}/`,
        HOSTNAME: "pod",
      });
      expect(env.get("PATH")?.split(":")[0]).toBe(dirname(process.execPath));
      expect(env.has("KUBELET_SECRET")).toBe(false);
      delete process.env["KUBELET_SECRET"];
    });

    it("starts a container whose ConfigMap is created later", async () => {
      await create("pod", {
        containers: [{ name: "main", image: "none", command: ["true"], envFrom: [{ configMapRef: { name: "late" } }] }],
      });
      await until("the container waits", async () => {
        const waiting = (await read("pod")).status?.containerStatuses?.[0]?.state?.waiting;
        return waiting?.message === 'configmap "late" not found';
      });
      const { api, namespace } = here();
      await api.createNamespacedConfigMap({ namespace, body: { metadata: { name: "late" } } });
      aheadMs += 10_000;
      await inPhase("pod", "Succeeded");
    });

    it("gives each pod its own address: two pods listen on the same port concurrently", async () => {
      const script = `require("http").createServer((_, r) => r.end(process.env.HOSTNAME)).listen(8080, process.env.IP, () => console.log("up"));`;
      for (const name of ["one", "two"]) {
        const env = [{ name: "IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } }];
        await create(name, {
          containers: [
            {
              name: "main",
              image: "none",
              command: ["node", "-e", script],
              env,
              readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
            },
          ],
        });
      }
      for (const name of ["one", "two"]) {
        const pod = await ready(name);
        expect(pod.status?.podIP).toMatch(/^127\.1\.\d+\.\d+$/);
        const answer = await fetch(`http://${pod.status?.podIP ?? ""}:8080/`);
        expect(await answer.text()).toBe(name);
      }
      for (const name of ["one", "two"]) await remove(name);
    });

    it("reports POD_IP to a pod whose port was taken by one that listens on all addresses", async () => {
      const listen = (host: string, port: string) =>
        `require("net").createServer().listen(${port}, ${host}, function () { console.log(this.address().port); });`;
      await run("everywhere", ["node", "-e", listen('"0.0.0.0"', "0")]);
      const port = await until("it listens", async () => (await logs("everywhere")).trim() || undefined);
      const env = [{ name: "POD_IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } }];
      const command = ["node", "-e", listen("process.env.POD_IP", port)];
      await create("pod", { containers: [{ name: "main", image: "none", env, command }] });
      const pod = await inPhase("pod", "Failed");
      const end = pod.status?.containerStatuses?.[0]?.state?.terminated;
      expect(end?.message).toMatch(/^address already in use: .* must listen on its POD_IP/);
      await remove("everywhere");
    });

    it("puts volumes below HOME, at the paths of their mounts", async () => {
      const data = { "app.yaml": "level: high", "other.yaml": "" };
      const { api, namespace } = here();
      await api.createNamespacedConfigMap({ namespace, body: { metadata: { name: "files" }, data } });
      const body = { metadata: { name: "keys" }, stringData: { token: "s3cret" } };
      await api.createNamespacedSecret({ namespace, body });
      const shared = { name: "shared", mountPath: "/var/shared" };
      const show =
        "cat etc/app/config.yaml run/all/token run/all/name run/all/labels; ls etc/app; cat var/shared/from-init";
      await create("pod", {
        initContainers: [
          {
            name: "init",
            image: "none",
            command: ["sh", "-c", "echo written > var/shared/from-init"],
            volumeMounts: [shared],
          },
        ],
        containers: [
          {
            name: "main",
            image: "none",
            command: ["sh", "-c", show],
            volumeMounts: [shared, { name: "config", mountPath: "/etc/app" }, { name: "all", mountPath: "/run/all" }],
          },
        ],
        volumes: [
          { name: "shared", emptyDir: {} },
          { name: "config", configMap: { name: "files", items: [{ key: "app.yaml", path: "config.yaml" }] } },
          {
            name: "all",
            projected: {
              sources: [
                { secret: { name: "keys" } },
                { configMap: { name: "absent", optional: true } },
                {
                  downwardAPI: {
                    items: [
                      { path: "name", fieldRef: { fieldPath: "metadata.name" } },
                      { path: "labels", fieldRef: { fieldPath: "metadata.labels" } },
                    ],
                  },
                },
              ],
            },
          },
        ],
      });
      await inPhase("pod", "Succeeded");
      expect(await logs("pod", { container: "main" })).toBe('level: highs3cretpodrole="tested"config.yaml\nwritten\n');
    });

    it("waits for an image that does not exist, and records the events of a kubelet", async () => {
      const image = "missing.example/tool:1";
      await create("pod", { containers: [{ name: "main", image, command: ["true"] }] });
      const seen: (string | undefined)[] = [];
      const backOff = async (): Promise<boolean> => {
        const waiting = (await read("pod")).status?.containerStatuses?.[0]?.state?.waiting;
        if (waiting?.reason !== seen.at(-1)) seen.push(waiting?.reason);
        return waiting?.reason === "ImagePullBackOff" && waiting.message === `Back-off pulling image "${image}"`;
      };
      await until("it holds back", backOff);
      expect((await read("pod")).status?.phase).toBe("Pending");
      await until("every event is recorded", async () => (await reasonsOf("pod")).includes("BackOff"));
      // The kubelet may have retried already.
      expect((await reasonsOf("pod")).slice(0, 4)).toEqual(["Pulling", "Failed", "Failed", "BackOff"]);
      aheadMs += 10_000;
      await until("it tried again", async () => (await reasonsOf("pod")).length >= 8);
      await remove("pod");
    });

    it("serves logs through the API server: whole, in part, previous, and followed to the end", async () => {
      const script = "echo one; echo two >&2; read line < gate; echo $line";
      const make = "mkfifo gate 2>/dev/null; ";
      await run("pod", ["sh", "-c", make + script]);
      await until("both lines are there", async () => (await logs("pod")).split("\n").length === 3);
      expect((await logs("pod")).split("\n").sort()).toEqual(["", "one", "two"]);
      expect((await logs("pod", { tailLines: 1 })).split("\n")).toHaveLength(2);
      expect(await logs("pod", { timestamps: true })).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z (one|two)\n/);
      const followed = follow("pod");
      const uid = (await read("pod")).metadata?.uid ?? "";
      await run("writer", ["sh", "-c", `echo three > ${join(suite.homeOf(uid), "gate")}`]);
      expect((await followed).split("\n").slice(2)).toEqual(["three", ""]);
      await inPhase("pod", "Succeeded");
      expect(await logs("pod", { tailLines: 1 })).toBe("three\n");
      const problem = await logs("pod", { previous: true }).catch((error: unknown) => toKubeFault(error));
      expect(problem).toMatchObject({ code: "invalid_request" });
    });

    it("keeps the last output of a container that failed", async () => {
      await create("pod", {
        restartPolicy: "Never",
        containers: [
          {
            name: "file",
            image: "none",
            command: ["sh", "-c", "echo from the file > last-words; exit 1"],
            terminationMessagePath: "last-words",
          },
          {
            name: "log",
            image: "none",
            command: ["sh", "-c", "echo from the log; exit 1"],
            terminationMessagePolicy: "FallbackToLogsOnError",
          },
          {
            name: "port",
            image: "none",
            command: ["sh", "-c", "echo listen EADDRINUSE: 0.0.0.0:80; exit 1"],
            terminationMessagePolicy: "FallbackToLogsOnError",
          },
        ],
      });
      const pod = await inPhase("pod", "Failed");
      const messages = pod.status?.containerStatuses?.map((each) => each.state?.terminated?.message);
      expect(messages).toEqual([
        "from the file\n",
        "from the log\n",
        expect.stringMatching(/POD_IP[^]*\nlisten EADDRINUSE: 0/),
      ]);
    });

    it("refuses logs to clients without a certificate of the API server", async () => {
      const request = get({
        host: "127.0.0.1",
        port: here().kubelet.port,
        path: "/healthz",
        rejectUnauthorized: false,
      });
      const [response] = (await once(request, "response")) as [IncomingMessage];
      response.resume();
      expect(response.statusCode).toBe(401);
    });

    it("leaves no process behind when it stops, and continues with its pods when it starts again", async () => {
      await run("stays", ["sleep", "1000"], { restartPolicy: "Always" });
      await run("fails", ["sleep", "1000"], { restartPolicy: "Never" });
      const uids = [];
      for (const name of ["stays", "fails"]) uids.push((await inPhase(name, "Running")).metadata?.uid ?? "");
      await here().kubelet[Symbol.asyncDispose]();
      for (const uid of uids) expect(await listProcesses(uid)).toEqual([]);
      const node = await here().api.readNode({ name: "a-0" });
      expect(node.status?.conditions?.find((each) => each.type === "Ready")).toMatchObject({
        status: "False",
        message: "kubelet is stopping",
      });

      await suite.start();
      const again = await until("the container runs again", async () => {
        const [container] = (await read("stays")).status?.containerStatuses ?? [];
        return container?.state?.running !== undefined && container.restartCount === 1 && container;
      });
      expect(again.lastState?.terminated).toMatchObject({ exitCode: 137, reason: "ContainerStatusUnknown" });
      await inPhase("fails", "Failed");
      for (const name of ["stays", "fails"]) await remove(name);
    });
  });
}
