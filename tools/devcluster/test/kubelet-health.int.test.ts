import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { Log } from "@kubernetes/client-node";
import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { httpServer, nodeOfSuite } from "./kubelet-world.ts";

for (const { title, skip, start } of API_SERVERS) {
  describe.skipIf(skip)(`what the kubelet asks of containers, against ${title}`, () => {
    const suite = nodeOfSuite(start);
    const { create, run, read, inPhase, ready, gone, remove, logs, eventsOf, reasonsOf, here } = suite;

    it("claims nothing about an image that it does not use", async () => {
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
      await using web = await httpServer(() => status);
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

    it("asks nothing else before the startup probe has succeeded", async () => {
      let status = 503;
      await using web = await httpServer(() => status);
      const httpGet = { host: "127.0.0.1", port: web.port, path: "/started" };
      await create("pod", {
        containers: [
          {
            name: "main",
            image: "none",
            command: ["sleep", "1000"],
            startupProbe: { httpGet, periodSeconds: 1, failureThreshold: 100 },
            // Would end the container at once.
            livenessProbe: { exec: { command: ["test", "-e", "started"] }, periodSeconds: 1, failureThreshold: 1 },
          },
        ],
      });
      await inPhase("pod", "Running");
      await until("it was asked and refused", () => web.requests() >= 2);
      expect((await read("pod")).status?.containerStatuses).toMatchObject([{ started: false, ready: false }]);
      status = 200;
      await until("it was ended by its liveness probe", async () => {
        return (await read("pod")).status?.containerStatuses?.[0]?.state?.terminated !== undefined;
      });
      await remove("pod");
    });

    it("restarts a container whose liveness probe fails, with its grace period, and says so", async () => {
      const ends = `process.on("SIGTERM", () => process.exit(5)); setInterval(() => {}, 1000);`;
      await create("pod", {
        restartPolicy: "Always",
        containers: [
          {
            name: "main",
            image: "none",
            command: ["node", "-e", `require("fs").writeFileSync("up", ""); ${ends}`],
            startupProbe: { exec: { command: ["test", "-e", "up"] }, periodSeconds: 1 },
            livenessProbe: { exec: { command: ["test", "!", "-e", "broken"] }, periodSeconds: 1, failureThreshold: 2 },
          },
        ],
      });
      const uid = (await ready("pod")).metadata?.uid ?? "";
      await writeFile(join(suite.homeOf(uid), "broken"), "");
      const container = await until("it was restarted", async () => {
        const status = (await read("pod")).status?.containerStatuses?.[0];
        return (status?.restartCount ?? 0) > 0 && status;
      });
      expect(container.lastState?.terminated?.exitCode).toBe(5);
      const reasons = await until("the events were recorded", async () => {
        const found = await reasonsOf("pod");
        return found.includes("Unhealthy") && found.includes("Killing") && found;
      });
      expect(reasons.slice(0, 2)).toEqual(["Created", "Started"]);
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
            startupProbe: { exec: { command: ["test", "-e", "order"] }, periodSeconds: 1 },
          },
          { name: "init", image: "none", command: ["sh", "-c", "echo init >> order"] },
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

    it("runs hooks: it is ready only after the first, and ends only after the second", async () => {
      const script = `process.on("SIGTERM", () => { console.log(require("fs").readFileSync("hooks", "utf8")); process.exit(0); });`;
      await create("pod", {
        containers: [
          {
            name: "main",
            image: "none",
            command: ["node", "-e", `${script} setInterval(() => {}, 1000); console.log("up");`],
            lifecycle: {
              postStart: {
                exec: { command: ["sh", "-c", "while ! test -e go; do sleep 0.05; done; echo post >> hooks"] },
              },
              preStop: { exec: { command: ["sh", "-c", "echo pre >> hooks"] } },
            },
          },
        ],
      });
      await until("it is up", async () => (await logs("pod")) === "up\n");
      const uid = (await read("pod")).metadata?.uid ?? "";
      expect((await read("pod")).status?.containerStatuses?.[0]?.ready).toBe(false);
      await writeFile(join(suite.homeOf(uid), "go"), "");
      await ready("pod");
      const stream = new PassThrough();
      const { api, config, namespace } = here();
      await new Log(config).log(namespace, "pod", "main", stream, { follow: true });
      await api.deleteNamespacedPod({ name: "pod", namespace });
      const parts: string[] = [];
      for await (const part of stream.setEncoding("utf8")) parts.push(String(part));
      expect(parts.join("")).toBe("up\npost\npre\n\n");
      await gone("pod");
    });

    it("ends a container whose first hook fails", async () => {
      const postStart = { exec: { command: ["false"] } };
      await create("pod", {
        containers: [{ name: "main", image: "none", command: ["sleep", "1000"], lifecycle: { postStart } }],
      });
      await inPhase("pod", "Failed");
      await until("the events were recorded", async () => (await reasonsOf("pod")).includes("FailedPostStartHook"));
      await remove("pod");
    });
  });
}
