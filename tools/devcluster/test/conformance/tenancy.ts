import { until } from "@muster/testkit";
import { beforeAll, describe, expect, it } from "vitest";
import { getList, getObject, getText } from "../../src/apiserver/json.ts";
import { type Api, pod } from "./api.ts";

/** The separation of tenants that share a cluster. */
export function describeTenancy(api: () => Api): void {
  let namespace: string;
  beforeAll(async () => {
    namespace = await api().namespace();
  });
  describe("a network policy", () => {
    const policies = (): string => `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`;
    const policy = (name: string, spec: object): object => ({
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name },
      spec,
    });

    it("has its directions and its protocol", async () => {
      const made = await api().post(
        policies(),
        policy("filled", { podSelector: { matchLabels: { app: "a" } }, egress: [{ ports: [{ port: 53 }] }] }),
      );
      expect(made.code, made.text).toBe(201);
      expect(made.body).toMatchObject({ metadata: { generation: 1 } });
      expect(getObject(made.body, "spec")).toEqual({
        podSelector: { matchLabels: { app: "a" } },
        policyTypes: ["Ingress", "Egress"],
        egress: [{ ports: [{ port: 53, protocol: "TCP" }] }],
      });
      const all = await api().post(policies(), policy("all", { podSelector: {} }));
      expect(getObject(all.body, "spec")).toEqual({ podSelector: {}, policyTypes: ["Ingress"] });
    });
  });

  describe("a quota", () => {
    const core = (plural: string, name = ""): string =>
      `/api/v1/namespaces/${namespace}/${plural}/${name}`.replace(/\/$/, "");
    const quota = (name: string, hard: object, more: object = {}): object => ({
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata: { name },
      spec: { hard, ...more },
    });
    const usedUntil = (name: string, used: object): Promise<unknown> =>
      until(`${name} has used ${JSON.stringify(used)}`, async () => {
        const { body } = await api().get(core("resourcequotas", name));
        const found = getObject(body, "status", "used");
        return Object.entries(used).every(([key, value]) => found[key] === value) && body;
      });
    const sized = (name: string, resources: object): object =>
      pod(name, { spec: { containers: [{ name: "main", image: "program:1", resources }] } });
    const claim = (name: string, storage: string): object => ({
      metadata: { name },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage } } },
    });

    it.each([
      ["cpu.fast", "1", "must be a standard resource for quota"],
      ["pods", "-1", "must be greater than or equal to 0"],
    ])("cannot be of %s %s", async (name, amount, because) => {
      const refused = await api().post(core("resourcequotas"), quota("wrong", { [name]: amount }));
      expect(refused.code, refused.text).toBe(422);
      expect(refused.text).toContain(because);
    });

    it("admits pods as long as they fit, counts them, and forgets those that have ended", async (context) => {
      context.skip(!api().cluster.collects, "quotas are counted by a controller manager");
      const hard = { pods: "2", "requests.cpu": "1", "limits.memory": "1Gi" };
      const made = await api().post(core("resourcequotas"), quota("pods", hard));
      expect(made.code, made.text).toBe(201);
      expect(made.body["status"]).toEqual({});
      await usedUntil("pods", { pods: "0", "requests.cpu": "0", "limits.memory": "0" });
      const unsized = await api().post(core("pods"), sized("unsized", {}));
      expect(unsized.code).toBe(403);
      expect(getText(unsized.body, "message")).toBe(
        'pods "unsized" is forbidden: failed quota: pods: must specify limits.memory for: main; requests.cpu for: main',
      );
      const half = { requests: { cpu: "600m" }, limits: { memory: "128Mi" } };
      expect((await api().post(core("pods"), sized("first", half))).code).toBe(201);
      await usedUntil("pods", { pods: "1", "requests.cpu": "600m", "limits.memory": "128Mi" });
      const second = await api().post(core("pods"), sized("second", half));
      expect(second.code).toBe(403);
      expect(getText(second.body, "message")).toBe(
        'pods "second" is forbidden: exceeded quota: pods, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1',
      );
      await api().patch(`${core("pods", "first")}/status`, "merge", { status: { phase: "Succeeded" } });
      await usedUntil("pods", { pods: "0", "requests.cpu": "0", "limits.memory": "0" });
      expect((await api().post(core("pods"), sized("second", half))).code).toBe(201);
      await api().delete(core("resourcequotas", "pods"));
    });

    it("counts, with the scope of classes of priority, no pod without a class", async (context) => {
      context.skip(!api().cluster.collects, "quotas are counted by a controller manager");
      const scoped = { scopes: ["PriorityClass"] };
      expect((await api().post(core("resourcequotas"), quota("classes", { pods: "0" }, scoped))).code).toBe(201);
      await usedUntil("classes", { pods: "0" });
      expect((await api().post(core("pods"), sized("classless", {}))).code).toBe(201);
      await api().delete(core("resourcequotas", "classes"));
    });

    it("counts the room of claims, and objects of any kind", async (context) => {
      context.skip(!api().cluster.collects, "quotas are counted by a controller manager");
      const hard = { persistentvolumeclaims: "5", "requests.storage": "10Gi", "count/configmaps": "1" };
      await api().post(core("resourcequotas"), quota("things", hard));
      await usedUntil("things", { persistentvolumeclaims: "0" });
      expect((await api().post(core("persistentvolumeclaims"), claim("some", "6Gi"))).code).toBe(201);
      await usedUntil("things", { persistentvolumeclaims: "1", "requests.storage": "6Gi" });
      const more = await api().post(core("persistentvolumeclaims"), claim("more", "5Gi"));
      expect(more.code).toBe(403);
      expect(getText(more.body, "message")).toBe(
        'persistentvolumeclaims "more" is forbidden: exceeded quota: things, requested: requests.storage=5Gi, used: requests.storage=6Gi, limited: requests.storage=10Gi',
      );
      await until("a config map is one too many", async () => {
        const made = await api().post(core("configmaps"), { metadata: { generateName: "many-" } });
        return made.code === 403 && made.text.includes("exceeded quota: things, requested: count/configmaps=1");
      });
      await api().delete(core("resourcequotas", "things"));
    });
  });

  it("a limit range sets the requests of containers without any", async () => {
    const own = await api().namespace();
    const core = (plural: string): string => `/api/v1/namespaces/${own}/${plural}`;
    const limits = [
      {
        type: "Container",
        default: { cpu: "1", memory: "64Mi" },
        defaultRequest: { cpu: "100m" },
      },
    ];
    const wrong = await api().post(core("limitranges"), { metadata: { name: "wrong" }, spec: { limits: [{}] } });
    expect(wrong.code, wrong.text).toBe(422);
    const made = await api().post(core("limitranges"), { metadata: { name: "most" }, spec: { limits } });
    expect(made.code, made.text).toBe(201);
    expect(made.body).toMatchObject({
      spec: { limits: [{ default: { cpu: "1", memory: "64Mi" }, defaultRequest: { cpu: "100m", memory: "64Mi" } }] },
    });
    const resourcesOf = async (name: string, resources: object): Promise<unknown> => {
      const spec = { containers: [{ name: "main", image: "program:1", resources }] };
      const { body, text } = await api().post(core("pods"), pod(name, { spec }));
      expect(getText(body, "status", "qosClass"), text).toBe("Burstable");
      return getObject(getList(body, "spec", "containers")[0], "resources");
    };
    // The server learns of a range a moment after it has taken it.
    await until("the range holds", async () => {
      const probe = pod("", { metadata: { name: undefined, generateName: "probe-" } });
      const { body } = await api().post(core("pods"), probe);
      return getText(body, "status", "qosClass") === "Burstable";
    });
    expect(await resourcesOf("silent", {})).toEqual({
      limits: { cpu: "1", memory: "64Mi" },
      requests: { cpu: "100m", memory: "64Mi" },
    });
    expect(await resourcesOf("sized", { limits: { cpu: "2", memory: "32Mi" }, requests: { cpu: "200m" } })).toEqual({
      limits: { cpu: "2", memory: "32Mi" },
      requests: { cpu: "200m", memory: "32Mi" },
    });
  });
}
