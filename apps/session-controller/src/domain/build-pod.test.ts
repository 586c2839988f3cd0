import { describe, expect, it } from "vitest";
import { makeComponent } from "../../test/samples.ts";
import { buildPod, type PodPolicy, type PodRequest } from "./build-pod.ts";

const POLICY: PodPolicy = {
  namespace: "default",
  installation: "muster-1",
  poolLabel: "pool",
  imageDefault: "busybox:stable",
  resultFile: "/dev/termination-log",
  keys: {
    labels: {
      ownerKind: "muster.dev/owner-kind",
      owner: "muster.dev/owner",
      ownerUid: "muster.dev/owner-uid",
      component: "muster.dev/component",
      componentKind: "muster.dev/component-kind",
      exclusive: "muster.dev/exclusive",
      managedBy: "app.kubernetes.io/managed-by",
      installation: "muster.dev/installation",
    },
    annotations: { mainContainer: "muster.dev/main-container", traceparent: "muster.dev/traceparent" },
    schedulingGates: { unconfirmed: "muster.dev/unconfirmed" },
  },
};

const SESSION = {
  name: "bench",
  uid: "u-1",
  timeoutMs: 900_000,
  killAfterMs: 5000,
  workerPort: 10_000,
  scenarioJson: '{"name":"ping $(POD_IP) $$ $x"}',
};

function request(more: Partial<PodRequest> = {}): PodRequest {
  return {
    session: SESSION,
    component: makeComponent("driver", "driver", { env: [{ name: "LEVEL", value: "3" }], args: ["--fast"] }),
    pool: "drivers",
    node: "node-7",
    workers: [
      { name: "server-0", kind: "server", ip: "10.0.0.1" },
      { name: "client-0", kind: "client", ip: "fd00::2" },
    ],
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ...more,
  };
}

function envOf(pod: ReturnType<typeof buildPod>): Record<string, string> {
  const env = pod.spec.containers[0]?.env ?? [];
  return Object.fromEntries(
    env.map((entry) => [entry.name, "value" in entry ? String(entry.value) : JSON.stringify(entry["valueFrom"])]),
  );
}

describe("buildPod", () => {
  it("renders a driver as in the golden file", async () => {
    const text = `${JSON.stringify(buildPod(request(), POLICY), undefined, 2)}\n`;
    await expect(text).toMatchFileSnapshot("../../test/golden/driver-pod.txt");
  });

  it("renders a server as in the golden file", async () => {
    const server = makeComponent("server-0", "server", {
      readyPort: 9000,
      command: ["/bin/serve"],
      workingDir: "/data",
    });
    const text = `${JSON.stringify(buildPod(request({ component: server, pool: "workers", workers: [] }), POLICY), undefined, 2)}\n`;
    await expect(text).toMatchFileSnapshot("../../test/golden/server-pod.txt");
  });

  it("renders a client as in the golden file", async () => {
    const client = request({ component: makeComponent("client-0", "client"), pool: "workers", workers: [] });
    const text = `${JSON.stringify(buildPod(client, POLICY), undefined, 2)}\n`;
    await expect(text).toMatchFileSnapshot("../../test/golden/client-pod.txt");
  });

  it.each(["driver", "server", "client"] as const)(
    "every pod gets POD_TIMEOUT, KILL_AFTER and a traceparent; workers get WORKER_KIND: %s",
    (kind) => {
      const pod = buildPod(request({ component: makeComponent(kind, kind) }), POLICY);
      const { POD_TIMEOUT, KILL_AFTER, TRACEPARENT, WORKER_KIND } = envOf(pod);
      expect({ POD_TIMEOUT, KILL_AFTER, WORKER_KIND }).toEqual({
        POD_TIMEOUT: "900",
        KILL_AFTER: "5",
        WORKER_KIND: kind === "driver" ? undefined : kind,
      });
      expect(TRACEPARENT).toBe(request().traceparent);
      expect(pod.metadata.annotations).toMatchObject({ "muster.dev/traceparent": request().traceparent });
    },
  );

  it("requires the granted node by its name, which its hostname label may differ from, and excludes pods of any namespace", () => {
    const { nodeSelector, affinity } = buildPod(request(), POLICY).spec;
    expect(nodeSelector).toEqual({ pool: "drivers" });
    expect(affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms).toEqual([
      { matchFields: [{ key: "metadata.name", operator: "In", values: ["node-7"] }] },
    ]);
    expect(affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]?.namespaceSelector).toEqual({});
  });

  it("selects the pool of its node, also where the component prefers another one", () => {
    const accepting = makeComponent("driver", "driver", { pool: "h100", otherPools: ["a100"] });
    expect(buildPod(request({ component: accepting, pool: "a100" }), POLICY).spec.nodeSelector).toEqual({
      pool: "a100",
    });
  });

  it("lets a shared pod run beside other shared ones, on the nodes that its template accepts", () => {
    const required = "requiredDuringSchedulingIgnoredDuringExecution";
    const zone = { key: "zone", operator: "In", values: ["a"] };
    const affinity = { nodeAffinity: { [required]: { nodeSelectorTerms: [{ matchExpressions: [zone] }] } } };
    const templateJson = JSON.stringify({ spec: { nodeSelector: { disk: "ssd" }, affinity } });
    const shared = makeComponent("driver", "driver", { shared: true, templateJson });
    const pod = buildPod(request({ component: shared }), POLICY);
    expect(pod.metadata.labels).toMatchObject({ "muster.dev/exclusive": "false" });
    expect(pod.spec.nodeSelector).toEqual({ disk: "ssd", pool: "drivers" });
    expect(pod.spec.affinity.nodeAffinity[required].nodeSelectorTerms).toEqual([
      { matchExpressions: [zone], matchFields: [{ key: "metadata.name", operator: "In", values: ["node-7"] }] },
    ]);
    expect(pod.spec.affinity.podAntiAffinity[required]).toMatchObject([
      { labelSelector: { matchExpressions: [{ key: "muster.dev/exclusive", operator: "In", values: ["true"] }] } },
    ]);
  });

  it("gives the pods of a session without a time limit none either", () => {
    const unlimited = request({ session: { ...SESSION, timeoutMs: 0 } });
    expect(buildPod(unlimited, POLICY).spec).not.toHaveProperty("activeDeadlineSeconds");
  });

  it("gives the driver its workers in the given order, with brackets around IPv6", () => {
    expect(envOf(buildPod(request(), POLICY))["QPS_WORKERS"]).toBe("10.0.0.1:10000,[fd00::2]:10000");
  });

  it("passes the session's port to the driver, in its list and in its JSON, and opens it in every pod", () => {
    const pod = buildPod(request({ session: { ...SESSION, workerPort: 12_345 } }), POLICY);
    const { QPS_WORKERS, MUSTER_WORKERS } = envOf(pod);
    expect(QPS_WORKERS).toBe("10.0.0.1:12345,[fd00::2]:12345");
    expect(JSON.parse(MUSTER_WORKERS ?? "")).toEqual([
      { name: "server-0", kind: "server", address: "10.0.0.1:12345", ip: "10.0.0.1", port: 12_345 },
      { name: "client-0", kind: "client", address: "[fd00::2]:12345", ip: "fd00::2", port: 12_345 },
    ]);
    expect(pod.spec.containers[0]?.ports).toMatchObject([{ name: "driver-port", containerPort: 12_345 }]);
  });

  it("escapes the scenario so that Kubernetes' expansion restores it", () => {
    expect(envOf(buildPod(request(), POLICY))["SCENARIO_JSON"]).toBe('{"name":"ping $$(POD_IP) $$$ $x"}');
  });

  it("gives workers their kind and no worker addresses", () => {
    const env = envOf(buildPod(request({ component: makeComponent("client-0", "client"), workers: [] }), POLICY));
    expect(env["WORKER_KIND"]).toBe("client");
    expect(env).not.toHaveProperty("QPS_WORKERS");
  });

  it("uses the default image for a component with only a command, and omits empty fields", () => {
    const bare = makeComponent("client-0", "client", { image: "", command: ["true"] });
    const pod = buildPod(request({ component: bare, traceparent: "" }), POLICY);
    expect(pod.spec.containers[0]).toMatchObject({ image: "busybox:stable", command: ["true"] });
    expect(pod.spec.containers[0]).not.toHaveProperty("readinessProbe");
    expect(pod.metadata.annotations).not.toHaveProperty("muster.dev/traceparent");
  });

  describe("with a template", () => {
    const template = {
      metadata: { labels: { team: "a", "muster.dev/owner": "x" }, annotations: { note: "n" } },
      spec: {
        restartPolicy: "Always",
        nodeSelector: { pool: "others" },
        imagePullSecrets: [{ name: "registry" }],
        volumes: [{ name: "data", emptyDir: {} }],
        initContainers: [
          { name: "fill", image: "i", securityContext: { runAsUser: 1, allowPrivilegeEscalation: true } },
        ],
        containers: [
          {
            name: "main",
            image: "other",
            ports: [{ containerPort: 1 }],
            resources: { limits: { cpu: 2 } },
            env: [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "s", key: "k" } } }],
            envFrom: [{ configMapRef: { name: "c" } }],
            volumeMounts: [{ name: "data", mountPath: "/data" }],
            securityContext: { runAsUser: 1000, privileged: true, allowPrivilegeEscalation: true },
          },
        ],
      },
    };
    const templateJson = JSON.stringify(template);
    const plain = buildPod(request(), POLICY);
    const { component: from } = request();
    const pod = buildPod(request({ component: { ...from, templateJson } }), POLICY);

    it("has the fields that the template gives", () => {
      const { imagePullSecrets, volumes, containers } = template.spec;
      const { resources, envFrom, volumeMounts } = containers[0]!;
      expect(pod.spec).toMatchObject({ imagePullSecrets, volumes });
      expect(pod.spec.containers).toMatchObject([{ resources, envFrom, volumeMounts }]);
      expect(pod.metadata).toMatchObject({ labels: { team: "a" }, annotations: { note: "n" } });
    });

    it("has the template's variables last, so that they may refer to all others", () => {
      const [main] = pod.spec.containers;
      expect(main?.env).toEqual([...plain.spec.containers[0]!.env, ...template.spec.containers[0]!.env]);
    });

    it("has no container that can gain privileges, whatever user it runs as", () => {
      expect(pod.spec.initContainers).toMatchObject([
        { name: "fill", securityContext: { runAsUser: 1, allowPrivilegeEscalation: false } },
      ]);
      expect(pod.spec.containers).toMatchObject([
        { securityContext: { runAsUser: 1000, allowPrivilegeEscalation: false } },
      ]);
    });

    // The check refuses these fields; in a record that contains them, they have no effect.
    it.each(["name", "image", "args", "ports", "terminationMessagePath"] as const)("keeps Muster's %s", (field) => {
      expect(pod.spec.containers[0]).toHaveProperty(field, plain.spec.containers[0]![field]);
    });

    it.each([
      "schedulingGates",
      "restartPolicy",
      "terminationGracePeriodSeconds",
      "activeDeadlineSeconds",
      "automountServiceAccountToken",
      "nodeSelector",
      "affinity",
    ])("keeps Muster's %s", (field) => {
      expect(pod.spec).toHaveProperty(field, (plain.spec as Record<string, unknown>)[field]);
    });

    it("keeps Muster's labels and annotations", () => {
      expect(pod.metadata).toMatchObject(plain.metadata);
    });
  });
});
