import { beforeAll, describe, expect, it } from "vitest";
import { at, getObject, getText } from "../../src/apiserver/json.ts";
import { type Api, configMap, nameIn, pod, getVersion } from "./api.ts";

/** Creating, reading and updating single objects. */
export function describeObjects(api: () => Api): void {
  let pods: string;
  let maps: string;
  let leases: string;
  beforeAll(async () => {
    const namespace = await api().namespace();
    pods = `/api/v1/namespaces/${namespace}/pods`;
    maps = `/api/v1/namespaces/${namespace}/configmaps`;
    leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
  });

  describe("creating", () => {
    it("gives an object a uid, a version, a time and its namespace", async () => {
      const made = await api().post(maps, configMap("created"));
      expect(made.code).toBe(201);
      expect(made.body).toMatchObject({ kind: "ConfigMap", apiVersion: "v1", data: { key: "value" } });
      expect(getText(made.body, "metadata", "namespace")).toBe(maps.split("/")[4]);
      expect(getText(made.body, "metadata", "uid")).toMatch(/^[0-9a-f-]{36}$/);
      expect(getVersion(made.body)).toMatch(/^[1-9]\d*$/);
      expect(getText(made.body, "metadata", "creationTimestamp")).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    });

    it("ignores what only the server decides", async () => {
      const metadata = {
        uid: "mine",
        creationTimestamp: "2001-01-01T00:00:00Z",
        deletionTimestamp: "2001-01-01T00:00:00Z",
      };
      const made = await api().post(maps, configMap("server-decides", { metadata }));
      expect(made.code).toBe(201);
      expect(getText(made.body, "metadata", "uid")).not.toBe("mine");
      expect(getText(made.body, "metadata", "creationTimestamp")).not.toBe("2001-01-01T00:00:00Z");
      expect(at(made.body, "metadata", "deletionTimestamp")).toBeUndefined();
    });

    it("accepts a body without kind and apiVersion", async () => {
      const made = await api().post(maps, { metadata: { name: "without-kind" } });
      expect(made.code).toBe(201);
      expect(made.body).toMatchObject({ kind: "ConfigMap", apiVersion: "v1" });
    });

    it("refuses a name that is taken", async () => {
      await api().post(maps, configMap("taken"));
      const again = await api().post(maps, configMap("taken"));
      expect(again.code).toBe(409);
      expect(again.body).toMatchObject({
        kind: "Status",
        status: "Failure",
        reason: "AlreadyExists",
        message: 'configmaps "taken" already exists',
        details: { name: "taken", kind: "configmaps" },
        code: 409,
      });
    });

    it("generates a name from a prefix", async () => {
      const first = await api().post(maps, { metadata: { generateName: "made-up-" } });
      const second = await api().post(maps, { metadata: { generateName: "made-up-" } });
      expect(nameIn(first.body)).toMatch(/^made-up-[a-z0-9]{5}$/);
      expect(nameIn(second.body)).not.toBe(nameIn(first.body));
      expect(getText(first.body, "metadata", "generateName")).toBe("made-up-");
    });

    it("requires a name or a prefix", async () => {
      const made = await api().post(maps, { metadata: {} });
      expect(made.code).toBe(422);
      expect(made.body).toMatchObject({
        reason: "Invalid",
        message: 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        details: { kind: "ConfigMap", causes: [{ reason: "FieldValueRequired", field: "metadata.name" }] },
      });
    });

    it.each(["Upper", "under_score", "-dash", "dot.", "a".repeat(254), "a/b"])("refuses the name %s", async (name) => {
      const made = await api().post(maps, configMap(name));
      expect(made.code).toBe(422);
      expect(made.body).toMatchObject({ reason: "Invalid", details: { name, causes: [{ field: "metadata.name" }] } });
    });

    it("refuses labels, annotations and finalizers that are malformed, and names each", async () => {
      const metadata = { labels: { "a b": "c d" }, annotations: { "e f": "" }, finalizers: ["plain"] };
      const made = await api().post(maps, configMap("malformed", { metadata }));
      expect(made.code).toBe(422);
      const fields = ["metadata.labels", "metadata.labels", "metadata.annotations", "metadata.finalizers[0]"];
      expect(made.body).toMatchObject({
        details: { causes: fields.map((field) => ({ field, reason: "FieldValueInvalid" })) },
      });
    });

    it("refuses a namespace that does not exist", async () => {
      const made = await api().post("/api/v1/namespaces/nowhere/configmaps", configMap("lost"));
      expect(made.code).toBe(404);
      expect(made.body).toMatchObject({
        reason: "NotFound",
        message: 'namespaces "nowhere" not found',
        details: { name: "nowhere", kind: "namespaces" },
      });
    });

    it("refuses a body of another namespace, kind or version, or with an outdated version", async () => {
      const other = await api().post(maps, configMap("other", { metadata: { namespace: "default" } }));
      expect(other.code).toBe(400);
      expect(other.body).toMatchObject({
        reason: "BadRequest",
        message: "the namespace of the provided object does not match the namespace sent on the request",
      });
      expect((await api().post(maps, { ...configMap("other"), kind: "Secret" })).code).toBe(400);
      expect((await api().post(maps, { ...configMap("other"), apiVersion: "v2" })).code).toBe(400);
      const versioned = await api().post(maps, configMap("other", { metadata: { resourceVersion: "1" } }));
      expect(versioned.code).toBe(500);
      expect(getText(versioned.body, "message")).toBe("resourceVersion should not be set on objects to be created");
    });

    it("keeps nothing in a dry run", async () => {
      const dry = await api().post(`${maps}?dryRun=All`, configMap("dry"));
      expect(dry.code).toBe(201);
      expect(getVersion(dry.body)).toBe("");
      expect((await api().get(`${maps}/dry`)).code).toBe(404);
      expect((await api().post(`${maps}?dryRun=Some`, configMap("dry"))).code).toBe(422);
    });
  });

  describe("bodies", () => {
    it.each([
      ["an unfinished object", '{"metadata":'],
      ["nothing", ""],
      ["a list", "[]"],
      ["a number", "1"],
      ["very deep nesting", "[".repeat(20_000) + "]".repeat(20_000)],
    ])("refuses %s with 400", async (_title, raw) => {
      const made = await api().call("POST", maps, { raw });
      expect(made.code).toBe(400);
      expect(made.body).toMatchObject({ kind: "Status", status: "Failure", reason: "BadRequest" });
    });

    it("refuses a media type that is not of the API", async () => {
      const made = await api().call("POST", maps, { raw: "{}", type: "text/plain" });
      expect(made.code).toBe(415);
      expect(made.body).toMatchObject({ reason: "UnsupportedMediaType" });
    });

    it("refuses a body of more than 3 MiB", async () => {
      const made = await api().post(maps, configMap("large", { data: { key: "x".repeat(3 * 1024 * 1024) } }));
      expect(made.code).toBe(413);
      expect(made.body).toMatchObject({
        reason: "RequestEntityTooLarge",
        message: "Request entity too large: limit is 3145728",
      });
    });

    it("refuses values of the wrong type and names the field", async () => {
      const made = await api().post(pods, pod("typed", { spec: { containers: [{ name: "main", image: 5 }] } }));
      expect(made.code).toBe(400);
      expect(getText(made.body, "message")).toBe(
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string',
      );
    });

    it("drops unknown fields with a warning", async () => {
      const made = await api().post(pods, pod("warned", { spec: { notThere: 1 } }));
      expect(made.code).toBe(201);
      expect(made.headers["warning"]).toBe('299 - "unknown field \\"spec.notThere\\""');
      expect(at(made.body, "spec", "notThere")).toBeUndefined();
    });

    it("refuses unknown fields when asked to be strict, at every depth", async () => {
      const containers = [{ name: "main", image: "program:1", notThere: 1 }];
      const made = await api().post(
        `${pods}?fieldValidation=Strict`,
        pod("strict", { spec: { containers, alsoNot: 1 } }),
      );
      expect(made.code).toBe(400);
      expect(getText(made.body, "message")).toContain(
        'strict decoding error: unknown field "spec.containers[0].notThere", unknown field "spec.alsoNot"',
      );
    });

    it("drops unknown fields silently on request", async () => {
      const made = await api().post(`${pods}?fieldValidation=Ignore`, pod("ignored", { spec: { notThere: 1 } }));
      expect(made.code).toBe(201);
      expect(made.headers["warning"]).toBeUndefined();
    });

    it("truncates times to seconds, or to microseconds for fields that have them", async () => {
      const made = await api().post(leases, {
        metadata: { name: "times" },
        spec: { renewTime: "2026-01-02T03:04:05.123456Z", holderIdentity: "me" },
      });
      expect(getText(made.body, "spec", "renewTime")).toBe("2026-01-02T03:04:05.123456Z");
      const event = await api().post(pods.replace(/pods$/, "events"), {
        metadata: { name: "times" },
        involvedObject: { kind: "Pod", name: "a", namespace: pods.split("/")[4] },
        firstTimestamp: "2026-01-02T03:04:05.678Z",
      });
      expect(getText(event.body, "firstTimestamp")).toBe("2026-01-02T03:04:05Z");
    });

    it("accepts numbers for quantities, and refuses invalid ones", async () => {
      const withCpu = (cpu: unknown): object =>
        pod("quantity", { spec: { containers: [{ name: "main", image: "a", resources: { limits: { cpu } } }] } });
      expect((await api().post(pods, withCpu("much"))).code).toBe(400);
      const made = await api().post(pods, withCpu(2));
      expect(made.body).toMatchObject({
        spec: { containers: [{ resources: { limits: { cpu: "2" }, requests: { cpu: "2" } } }] },
      });
    });

    it("keeps any key of data that is allowed, also those that mean something to JavaScript", async () => {
      const raw = '{"metadata":{"name":"odd-keys"},"data":{"__proto__":"a","constructor":"b"}}';
      const made = await api().call("POST", maps, { raw });
      expect(made.code).toBe(201);
      const read = await api().get(`${maps}/odd-keys`);
      expect(Object.entries(getObject(read.body, "data")).sort()).toEqual([
        ["__proto__", "a"],
        ["constructor", "b"],
      ]);
      expect((await api().post(maps, configMap("odd", { data: { "a b": "" } }))).code).toBe(422);
    });
  });

  describe("reading", () => {
    it("answers 404 with a Status for what does not exist", async () => {
      const read = await api().get(`${maps}/missing`);
      expect(read.code).toBe(404);
      expect(read.body).toEqual({
        kind: "Status",
        apiVersion: "v1",
        metadata: {},
        status: "Failure",
        message: 'configmaps "missing" not found',
        reason: "NotFound",
        details: { name: "missing", kind: "configmaps" },
        code: 404,
      });
    });

    it("names the group in errors of other groups", async () => {
      const read = await api().get(`${leases}/missing`);
      expect(read.body).toMatchObject({
        message: 'leases.coordination.k8s.io "missing" not found',
        details: { group: "coordination.k8s.io", kind: "leases" },
      });
    });

    it.each([
      "/api/v1/nothings",
      "/api/v2/pods",
      "/apis/nowhere/v1/things",
      "/nothing",
      "/api/v1/nodes/a/nothing",
      "/%ff",
    ])("answers 404 for %s", async (path) => {
      const { code } = await api().get(path);
      // An escape that is no UTF-8 is a bad request to some, and nothing to others.
      expect(path === "/%ff" ? [400, 404] : [404]).toContain(code);
    });

    it("answers 405 for a method that a path does not support", async () => {
      expect((await api().post("/api/v1/pods", pod("nowhere"))).code).toBe(405);
      expect((await api().put(maps, configMap("nowhere"))).code).toBe(405);
      expect((await api().delete("/api/v1/namespaces")).code).toBe(405);
    });

    it("answers 406 if the client accepts no supported form", async () => {
      expect((await api().get(maps, "application/xml")).code).toBe(406);
    });

    it("refuses a wrong token, without details", async () => {
      const read = await api().call("GET", maps, { token: "wrong" });
      expect(read.code).toBe(401);
      expect(read.body).toMatchObject({ kind: "Status", reason: "Unauthorized", message: "Unauthorized", code: 401 });
      expect([401, 403]).toContain((await api().call("GET", maps, { token: "" })).code);
    });

    it.each(["/livez", "/readyz", "/healthz"])("answers %s without credentials", async (path) => {
      const read = await api().call("GET", path, { token: "" });
      expect([read.code, read.text]).toEqual([200, "ok"]);
    });
  });

  describe("updating", () => {
    it("replaces the object and raises its version", async () => {
      const made = await api().post(maps, configMap("replaced"));
      const written = await api().put(`${maps}/replaced`, { ...made.body, data: { other: "1" } });
      expect(written.code).toBe(200);
      expect(written.body).toMatchObject({ data: { other: "1" } });
      expect(at(written.body, "data", "key")).toBeUndefined();
      expect(Number(getVersion(written.body))).toBeGreaterThan(Number(getVersion(made.body)));
      expect(getText(written.body, "metadata", "uid")).toBe(getText(made.body, "metadata", "uid"));
    });

    it("refuses an outdated version with a conflict", async () => {
      const made = await api().post(maps, configMap("outdated"));
      await api().put(`${maps}/outdated`, { ...made.body, data: { first: "1" } });
      const late = await api().put(`${maps}/outdated`, { ...made.body, data: { second: "2" } });
      expect(late.code).toBe(409);
      expect(late.body).toMatchObject({
        reason: "Conflict",
        message:
          'Operation cannot be fulfilled on configmaps "outdated": the object has been modified; please apply your changes to the latest version and try again',
        details: { name: "outdated", kind: "configmaps" },
      });
    });

    it("takes an update without a version, except for leases", async () => {
      await api().post(maps, configMap("unconditional"));
      expect((await api().put(`${maps}/unconditional`, configMap("unconditional", { data: {} }))).code).toBe(200);
      await api().post(leases, { metadata: { name: "conditional" }, spec: { holderIdentity: "a" } });
      const written = await api().put(`${leases}/conditional`, {
        metadata: { name: "conditional" },
        spec: { holderIdentity: "b" },
      });
      expect(written.code).toBe(422);
      expect(getText(written.body, "message")).toContain(
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
      );
    });

    it("changes nothing, not even the version, if nothing differs", async () => {
      const made = await api().post(maps, configMap("same"));
      const written = await api().put(`${maps}/same`, made.body);
      expect(written.code).toBe(200);
      expect(getVersion(written.body)).toBe(getVersion(made.body));
    });

    it("refuses another name, and another uid", async () => {
      const made = await api().post(maps, configMap("named"));
      const other = await api().put(`${maps}/named`, configMap("other-name"));
      expect(other.code).toBe(400);
      expect(getText(other.body, "message")).toBe(
        "the name of the object (other-name) does not match the name on the URL (named)",
      );
      const metadata = { ...getObject(made.body, "metadata"), uid: "another" };
      expect((await api().put(`${maps}/named`, { ...made.body, metadata })).code).toBe(409);
    });

    it("answers 404 for what does not exist, but creates leases and events", async () => {
      expect((await api().put(`${maps}/absent`, configMap("absent"))).code).toBe(404);
      expect((await api().put(`${leases}/absent`, { metadata: { name: "absent" } })).code).toBe(201);
    });

    it("keeps an immutable config map unchanged", async () => {
      const made = await api().post(maps, { ...configMap("immutable"), immutable: true });
      const written = await api().put(`${maps}/immutable`, { ...made.body, data: { key: "changed" } });
      expect(written.code).toBe(422);
      expect(getText(written.body, "message")).toContain("field is immutable when `immutable` is set");
    });

    it("encodes the plain data of a secret", async () => {
      const made = await api().post(maps.replace(/configmaps$/, "secrets"), {
        metadata: { name: "plain" },
        stringData: { a: "b" },
      });
      expect(made.body).toMatchObject({ type: "Opaque", data: { a: "Yg==" } });
      expect(at(made.body, "stringData")).toBeUndefined();
    });
  });
}
