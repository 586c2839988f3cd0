import { beforeAll, describe, expect, it } from "vitest";
import { at, getList, findNumber, getObject, getText, removeKey } from "../../src/apiserver/json.ts";
import { type Api, pod } from "./api.ts";
import { describeGates } from "./gates.ts";

/** The special rules of pods, nodes, services, namespaces and events. */
export function describeKinds(api: () => Api): void {
  let namespace: string;
  let pods: string;
  beforeAll(async () => {
    namespace = await api().namespace();
    pods = `/api/v1/namespaces/${namespace}/pods`;
  });

  describe("pods", () => {
    it("get the defaults of Kubernetes", async () => {
      const containers = [
        {
          name: "main",
          image: "program",
          ports: [{ containerPort: 80 }],
          env: [{ name: "IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } }],
          readinessProbe: { httpGet: { port: 80 } },
          resources: { limits: { memory: "1Gi" }, requests: { cpu: "1" } },
        },
      ];
      const made = await api().post(pods, pod("defaults", { spec: { containers, volumes: [{ name: "scratch" }] } }));
      expect(made.code, made.text).toBe(201);
      expect(removeKey(getObject(made.body, "spec"), "volumes")).toEqual({
        containers: [
          {
            ...containers[0],
            imagePullPolicy: "Always",
            ports: [{ containerPort: 80, protocol: "TCP" }],
            env: [{ name: "IP", valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "status.podIP" } } }],
            readinessProbe: {
              httpGet: { path: "/", port: 80, scheme: "HTTP" },
              timeoutSeconds: 1,
              periodSeconds: 10,
              successThreshold: 1,
              failureThreshold: 3,
            },
            resources: { limits: { memory: "1Gi" }, requests: { cpu: "1", memory: "1Gi" } },
            terminationMessagePath: "/dev/termination-log",
            terminationMessagePolicy: "File",
          },
        ],
        dnsPolicy: "ClusterFirst",
        enableServiceLinks: true,
        preemptionPolicy: "PreemptLowerPriority",
        priority: 0,
        restartPolicy: "Always",
        schedulerName: "default-scheduler",
        securityContext: {},
        terminationGracePeriodSeconds: 30,
        tolerations: ["not-ready", "unreachable"].map((key) => ({
          key: `node.kubernetes.io/${key}`,
          operator: "Exists",
          effect: "NoExecute",
          tolerationSeconds: 300,
        })),
      });
      expect(getObject(made.body, "status")).toEqual({ phase: "Pending", qosClass: "Burstable" });
      expect(getList(made.body, "spec", "volumes")).toEqual([{ name: "scratch", emptyDir: {} }]);
    });

    it.each([
      ["program:1", "IfNotPresent"],
      ["program:latest", "Always"],
      ["host:5000/program", "Always"],
      ["host:5000/program:1", "IfNotPresent"],
    ])("pull %s by the rule %s", async (image, expected) => {
      const made = await api().post(pods, {
        metadata: { generateName: "pull-" },
        spec: { containers: [{ name: "main", image }] },
      });
      expect(getText(getList(made.body, "spec", "containers")[0], "imagePullPolicy")).toBe(expected);
    });

    it.each([
      [{}, "BestEffort"],
      [{ limits: { cpu: "1", memory: "1Gi" } }, "Guaranteed"],
      [{ requests: { cpu: "1" } }, "Burstable"],
    ])("with the resources %j are of the class %s", async (resources, expected) => {
      const containers = [{ name: "main", image: "program", resources }];
      const made = await api().post(pods, { metadata: { generateName: "class-" }, spec: { containers } });
      expect(getText(made.body, "status", "qosClass")).toBe(expected);
    });

    it.each([
      ["spec.containers", { containers: [] }],
      ["spec.containers[0].name", { containers: [{ name: "A_", image: "a" }] }],
      ["spec.containers[0].image", { containers: [{ name: "a" }] }],
      [
        "spec.containers[1].name",
        {
          containers: [
            { name: "a", image: "a" },
            { name: "a", image: "a" },
          ],
        },
      ],
      [
        "spec.containers[0].ports[0].containerPort",
        { containers: [{ name: "a", image: "a", ports: [{ containerPort: 70_000 }] }] },
      ],
      ["spec.containers[0].env[0].name", { containers: [{ name: "a", image: "a", env: [{ name: "a=b" }] }] }],
      [
        "spec.containers[0].volumeMounts[0].name",
        { containers: [{ name: "a", image: "a", volumeMounts: [{ name: "v", mountPath: "/v" }] }] },
      ],
      ["spec.containers[0].imagePullPolicy", { containers: [{ name: "a", image: "a", imagePullPolicy: "Often" }] }],
      ["spec.restartPolicy", { containers: [{ name: "a", image: "a" }], restartPolicy: "Sometimes" }],
      [
        "spec.ephemeralContainers",
        { containers: [{ name: "a", image: "a" }], ephemeralContainers: [{ name: "b", image: "a" }] },
      ],
    ])("are refused for %s", async (field, spec) => {
      const made = await api().post(pods, pod("refused", { spec }));
      expect(made.code).toBe(422);
      expect(getList(made.body, "details", "causes").map((cause) => getText(cause, "field"))).toContain(field);
    });

    it("keep their spec, but for images and added tolerations", async () => {
      const made = await api().post(pods, pod("kept"));
      const spec = getObject(made.body, "spec");
      const refused = await api().put(`${pods}/kept`, { ...made.body, spec: { ...spec, restartPolicy: "Never" } });
      expect(refused.code).toBe(422);
      expect(getText(refused.body, "message")).toContain(
        "spec: Forbidden: pod updates may not change fields other than",
      );
      const image = await api().patch(`${pods}/kept`, "strategic", {
        spec: { containers: [{ name: "main", image: "program:2" }] },
      });
      expect(image.code).toBe(200);
      expect(findNumber(image.body, "metadata", "generation")).toBe(2);
      const tolerations = [...getList(spec, "tolerations"), { key: "more", operator: "Exists" }];
      expect((await api().patch(`${pods}/kept`, "merge", { spec: { tolerations } })).code).toBe(200);
    });

    it("have a status that only the subresource writes, and a spec that it does not", async () => {
      const made = await api().post(pods, pod("status"));
      const main = await api().put(`${pods}/status`, { ...made.body, status: { phase: "Failed" } });
      expect(getText(main.body, "status", "phase")).toBe("Pending");
      const status = { phase: "Running", podIP: "127.1.0.1" };
      const spec = { ...getObject(made.body, "spec"), nodeName: "smuggled" };
      const written = await api().put(`${pods}/status/status`, { ...made.body, spec, status });
      expect(written.code).toBe(200);
      expect(written.body).toMatchObject({ status: { phase: "Running", podIP: "127.1.0.1" } });
      expect(at(written.body, "spec", "nodeName")).toBeUndefined();
      expect(findNumber(written.body, "metadata", "generation")).toBe(1);
      expect((await api().get(`${pods}/status/status`)).body).toMatchObject({
        kind: "Pod",
        status: { phase: "Running" },
      });
    });

    it("take labels through the status, and no owners", async () => {
      await api().post(pods, pod("reported"));
      const metadata = {
        labels: { seen: "yes" },
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "a", uid: "b" }],
      };
      const written = await api().patch(`${pods}/reported/status`, "strategic", {
        metadata,
        status: { phase: "Running" },
      });
      expect(getObject(written.body, "metadata", "labels")).toEqual({ seen: "yes" });
      expect(at(written.body, "metadata", "ownerReferences")).toBeUndefined();
    });

    it("conflict on an outdated status", async () => {
      const made = await api().post(pods, pod("raced"));
      await api().patch(`${pods}/raced/status`, "merge", { status: { phase: "Running" } });
      expect((await api().put(`${pods}/raced/status`, { ...made.body, status: { phase: "Failed" } })).code).toBe(409);
    });

    describe("behind gates", () => describeGates(api, () => pods));

    describe("are bound", () => {
      const bind = (name: string, more: object = {}): ReturnType<Api["post"]> =>
        api().post(`${pods}/${name}/binding`, {
          apiVersion: "v1",
          kind: "Binding",
          metadata: { name, ...more },
          target: { apiVersion: "v1", kind: "Node", name: "target" },
        });

      it("to a node once, with a condition that reports it", async () => {
        await api().post(pods, pod("bound"));
        const answer = await bind("bound");
        expect(answer.code).toBe(201);
        expect(answer.body).toEqual({ kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 });
        const read = await api().get(`${pods}/bound`);
        expect(read.body).toMatchObject({
          spec: { nodeName: "target" },
          status: { phase: "Pending", conditions: [{ type: "PodScheduled", status: "True" }] },
        });
        const again = await bind("bound");
        expect(again.code).toBe(409);
        expect(getText(again.body, "message")).toBe(
          'Operation cannot be fulfilled on pods/binding "bound": pod bound is already assigned to node "target"',
        );
      });

      it("only while they live, and only if they exist", async () => {
        await api().post(pods, pod("dying", { metadata: { finalizers: ["a/a"] } }));
        await api().delete(`${pods}/dying`);
        expect((await bind("dying")).code).toBe(409);
        expect((await bind("missing")).code).toBe(404);
      });

      it("only as the pod with the given uid", async () => {
        await api().post(pods, pod("meant"));
        expect((await bind("meant", { uid: "another" })).code).toBe(409);
      });
    });
  });

  describe("nodes", () => {
    it("have a capacity that is allocatable until their kubelet reports another value", async () => {
      const made = await api().post("/api/v1/nodes", {
        metadata: { name: "sized" },
        status: { capacity: { cpu: 4, memory: "1Gi" } },
      });
      expect(made.code).toBe(201);
      expect(made.body).toMatchObject({ status: { allocatable: { cpu: "4", memory: "1Gi" } } });
    });

    it("are found by whether they accept pods", async () => {
      await api().post("/api/v1/nodes", { metadata: { name: "cordoned" } });
      await api().patch("/api/v1/nodes/cordoned", "strategic", { spec: { unschedulable: true } });
      const listed = await api().get("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue");
      expect(getList(listed.body, "items").map((node) => getText(node, "metadata", "name"))).toEqual(["cordoned"]);
    });
  });

  describe("services", () => {
    it("get their own address and keep it", async () => {
      const services = `/api/v1/namespaces/${namespace}/services`;
      const spec = { selector: { app: "a" }, ports: [{ port: 80 }] };
      const made = await api().post(services, { metadata: { name: "addressed" }, spec });
      expect(made.code).toBe(201);
      expect(getText(made.body, "spec", "clusterIP")).toMatch(/^10\.96\.\d+\.\d+$/);
      expect(made.body).toMatchObject({
        spec: { type: "ClusterIP", ports: [{ port: 80, targetPort: 80, protocol: "TCP" }] },
      });
      const other = await api().post(services, { metadata: { name: "other" }, spec });
      expect(getText(other.body, "spec", "clusterIP")).not.toBe(getText(made.body, "spec", "clusterIP"));
      const written = await api().put(`${services}/addressed`, { metadata: { name: "addressed" }, spec });
      expect(getText(written.body, "spec", "clusterIP")).toBe(getText(made.body, "spec", "clusterIP"));
    });

    it("have none if they request none", async () => {
      const services = `/api/v1/namespaces/${namespace}/services`;
      const made = await api().post(services, { metadata: { name: "headless" }, spec: { clusterIP: "None" } });
      expect(made.body).toMatchObject({ spec: { clusterIP: "None" } });
      expect((await api().post(services, { metadata: { name: "portless" }, spec: {} })).code).toBe(422);
    });
  });

  describe("namespaces", () => {
    it("begin active, with their name as a label", async () => {
      const made = await api().post("/api/v1/namespaces", { metadata: { name: "new-namespace" } });
      expect(made.body).toMatchObject({
        metadata: { labels: { "kubernetes.io/metadata.name": "new-namespace" } },
        spec: { finalizers: ["kubernetes"] },
        status: { phase: "Active" },
      });
    });

    it.each(["default", "kube-system", "kube-node-lease"])("have %s from the start", async (name) => {
      expect((await api().get(`/api/v1/namespaces/${name}`)).body).toMatchObject({ status: { phase: "Active" } });
    });

    it("have names that are labels", async () => {
      expect((await api().post("/api/v1/namespaces", { metadata: { name: "with.dots" } })).code).toBe(422);
    });
  });

  describe("events", () => {
    it("belong to the namespace of the object that they concern", async () => {
      const made = await api().post(`/api/v1/namespaces/${namespace}/events`, {
        metadata: { name: "astray" },
        involvedObject: { kind: "Pod", name: "a", namespace: "default" },
      });
      expect(made.code).toBe(422);
    });
  });
}
