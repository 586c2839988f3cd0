import { PassThrough } from "node:stream";
import { Log } from "@kubernetes/client-node";
import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { startHttpServer, startSuiteNode } from "./kubelet-world.ts";

for (const { title, skip, start } of API_SERVERS) {
  describe.skipIf(skip)(`what the kubelet asks of containers, against ${title}`, () => {
    const suite = startSuiteNode(start);
    const { create, run, read, inPhase, ready, gone, remove, logs, eventsOf, here } = suite;

    it("reports nothing about an image that it does not use", async () => {
      await run("pod", ["true"]);
      await inPhase("pod", "Succeeded");
      const events = await until("it has started", async () => {
        const found = await eventsOf("pod");
        return found.some(({ reason }) => reason === "Started") && found;
      });
      expect(events.map(({ reason }) => reason)).toEqual(["Created", "Started"]);
      expect(events[0]?.message).toBe('Container created; this node pulls no images and ignores "none"');
    });

    it("is ready only while the probe succeeds", async () => {
      let status = 503;
      await using web = await startHttpServer(() => status);
      await create("pod", {
        containers: [
          {
            name: "main",
            image: "none",
            command: ["sleep", "1000"],
            readinessProbe: {
              httpGet: { host: "127.0.0.1", port: web.port, path: "/ready" },
              periodSeconds: 1,
              failureThreshold: 2,
            },
          },
        ],
      });
      await inPhase("pod", "Running");
      await until("it was asked and refused", () => web.requests() >= 2);
      expect((await read("pod")).status?.containerStatuses?.[0]?.ready).toBe(false);
      status = 200;
      await ready("pod");
      status = 500;
      await until("it is no longer ready", async () => {
        const conditions = (await read("pod")).status?.conditions;
        return conditions?.find((each) => each.type === "Ready")?.reason === "ContainersNotReady";
      });
      await remove("pod");
    });

    it("runs a sidecar from before the containers to after them", async () => {
      const report = `process.on("SIGTERM", () => { require("fs").appendFileSync("order", "side ends\\n"); process.exit(9); });`;
      const side = `require("fs").appendFileSync("order", "side\\n"); ${report} setInterval(() => {}, 1000);`;
      await create("pod", {
        initContainers: [
          {
            name: "side",
            image: "none",
            restartPolicy: "Always",
            command: ["node", "-e", side],
          },
          {
            name: "init",
            image: "none",
            command: ["sh", "-c", "while ! test -e order; do sleep 0.05; done; echo init >> order"],
          },
        ],
        containers: [{ name: "main", image: "none", command: ["sh", "-c", "echo main >> order; cat order"] }],
      });
      const pod = await inPhase("pod", "Succeeded");
      expect(await logs("pod", { container: "main" })).toBe("side\ninit\nmain\n");
      expect(pod.status?.initContainerStatuses).toMatchObject([
        { name: "side", state: { terminated: { exitCode: 9 } } },
        { name: "init", state: { terminated: { exitCode: 0 } } },
      ]);
      await remove("pod");
    });

    it("runs the preStop hook, and stops only after it", async () => {
      const script = `process.on("SIGTERM", () => { console.log(require("fs").readFileSync("hooks", "utf8")); process.exit(0); });`;
      await create("pod", {
        containers: [
          {
            name: "main",
            image: "none",
            command: ["node", "-e", `${script} setInterval(() => {}, 1000); console.log("up");`],
            lifecycle: { preStop: { exec: { command: ["sh", "-c", "echo pre >> hooks"] } } },
          },
        ],
      });
      await until("it is up", async () => (await logs("pod")) === "up\n");
      await ready("pod");
      const stream = new PassThrough();
      const { api, config, namespace } = here();
      await new Log(config).log(namespace, "pod", "main", stream, { follow: true });
      await api.deleteNamespacedPod({ name: "pod", namespace });
      const parts: string[] = [];
      for await (const part of stream.setEncoding("utf8")) parts.push(String(part));
      expect(parts.join("")).toBe("up\npre\n\n");
      await gone("pod");
    });
  });
}
