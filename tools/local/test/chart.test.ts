import { execFile } from "node:child_process";
import { cp, mkdtemp, mkdtempDisposable, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type {
  V1ConfigMap,
  V1Deployment,
  V1NetworkPolicy,
  V1Pod,
  V1PolicyRule,
  V1Service,
} from "@kubernetes/client-node";
import type { KubeObject } from "@muster/kube";
import { findNatsServer, buildKeyVariable, makeNkey, NATS_USERS } from "@muster/nats-server";
import { buildImageReference } from "@muster/repo/images";
import { OPT_IN, SERVICES } from "@muster/repo/services";
import { makeCertificateAuthority, buildProcessEnv, makeSignedCertificate } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { ROOT } from "../src/root.ts";
import { CHART, buildValueArguments, runHelm, describeMissingHelm, renderChart } from "./helm.ts";

type RulesFile = { readonly groups: readonly { readonly rules: readonly { alert: string; expr: string }[] }[] };

const missing = await describeMissingHelm();
/** Values that enable every option. */
const ALL = {
  "services.node-scaler.enabled": true,
  "services.provision-engine.enabled": true,
  "nodeScaler.providers": ["karpenter", "cluster-api", "ec2"],
  "nodeScaler.machinesNamespace": "metal",
  rights: {
    mpijobs: true,
    otherNamespaces: true,
    podGroups: true,
    batchJobs: "all",
    jobNamespaces: "all",
    sessionNamespaces: "all",
    slices: true,
  },
  "crds.jaxjobs": true,
  "nats.replicas": 3,
  workNamespace: "work",
  otlpEndpoint: "http://jaeger.observability:4318",
  monitoring: { serviceMonitor: { enabled: true }, prometheusRule: { enabled: true } },
  "gateway.tlsSecret": "certificate",
  "gateway.ingress": { enabled: true, host: "muster.example.org", tlsSecret: "public" },
  "gateway.httpRoute": { enabled: true, parentRefs: [{ name: "public", namespace: "gateways" }] },
};

describe.skipIf(missing !== undefined)(
  `the Helm chart${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  { timeout: 120_000 },
  () => {
    it("passes helm lint, and refuses unknown values", async () => {
      expect(await runHelm(["lint", "--strict", CHART])).toContain("0 chart(s) failed");
      const refused = [
        { replicas: 3 },
        { "services.watchr": {} },
        { "services.watcher.env": { JOB_WORKERS: 1 } },
        { "services.watcher.env": { WATCHER_RELIST: 1 } },
        { "services.watcher.env": { MUSTER_NATS_URL: "nats://elsewhere" } },
        { "services.watcher.replicas": -1 },
        { "services.provision-engine.env": { PROVISION_KEY: "secret" } },
        { "nats.replicas": 2 },
        { "nats.enabled": false },
        { workNamespace: "<work>" },
        { "nats.syncInterval": "never" },
        { "services.gateway.env": { GATEWAY_ADDR: "0.0.0.0:80" } },
        { "gateway.ingress.enabled": true },
        { "gateway.ingress": { enabled: true, host: "muster.example.org", tlsSecret: "" } },
        { "gateway.httpRoute.enabled": true },
      ];
      for (const values of refused) {
        await expect(renderChart("here", values), JSON.stringify(values)).rejects.toThrow(
          /don't meet the specifications/,
        );
      }
    });

    it("names a misspelt variable and its service", async () => {
      const misspelt = renderChart("here", { "services.watcher.env": { WATCHER_RELIST: 1 } });
      await expect(misspelt).rejects.toThrow(/at '\/services\/watcher\/env': additional properties 'WATCHER_RELIST'/);
    });

    it("refuses to render without a value that has a default, such as with the values of an older release", async () => {
      const values = parse(await readFile(join(CHART, "values.yaml"), "utf8")) as object;
      const leaves = leavesOf(values).filter((path) => !/^(services|defaults\.resources|nats\.resources)\./.test(path));
      expect(leaves).toContain("nats.syncInterval");
      const without = (paths: readonly string[]) =>
        renderChart("here", Object.fromEntries(paths.map((path) => [path, null]))).then(() => "rendered", String);
      const refusal = await without(leaves);
      const lines = /at '([^']*)': missing propert(?:y|ies) (.*)/g;
      const missed = [...refusal.matchAll(lines)].flatMap(([, at = "", names = ""]) =>
        [...names.matchAll(/'([^']+)'/g)].map(([, name]) => `${at}/${name}`.slice(1).replaceAll("/", ".")),
      );
      expect(missed.toSorted()).toEqual(leaves.toSorted());
      const sections = Object.keys(values);
      const whole = await without(sections);
      for (const name of sections) expect(whole).toContain(`'${name}'`);
    });

    it("has the namespaces of the installation wherever deploy/kubernetes has its own", async () => {
      const text = JSON.stringify(await renderChart("here", ALL));
      expect(text).not.toMatch(/muster-system|"namespace":"(default|machines)"/);
      const standard = await renderChart("muster-system");
      expect(standard.filter(({ kind }) => kind === "Role").map(placeOf)).toContain("default/muster-job-controller");
    });

    it.each([
      { release: "default", work: "work", machines: "machines" },
      { release: "machines", work: "muster-system", machines: "default" },
      { release: "muster-work", work: "machines", machines: "muster-system" },
    ])("replaces only namespaces: $release, $work, $machines", async (place) => {
      const renderedAs = (names: typeof place) =>
        renderChart(names.release, {
          ...ALL,
          workNamespace: names.work,
          "nodeScaler.machinesNamespace": names.machines,
        });
      const unlike = { release: "name-of-release", work: "name-of-work", machines: "name-of-machines" };
      const expected = JSON.stringify(await renderedAs(unlike)).replaceAll(
        /name-of-(release|work|machines)/g,
        (_, which: keyof typeof place) => place[which],
      );
      // Annotations hash the ConfigMaps, in which only the names differ.
      const withoutHashes = (text: string): string => text.replaceAll(/[0-9a-f]{64}/g, "");
      expect(withoutHashes(JSON.stringify(await renderedAs(place)))).toEqual(withoutHashes(expected));
    });

    it("requires the registry of the images, and names the images that `npm run images` pushes", async () => {
      const { version } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { version: string };
      await expect(renderChart("here", { "image.repository": "" })).rejects.toThrow(
        /image.repository is empty: .* image.repository=registry.example.com\/muster\. `npm run images -- --repository/,
      );
      const objects = await renderChart("here", { "image.repository": "registry.example.com/muster" });
      const pulled = objects.filter(isDeployment).flatMap(({ spec }) => spec?.template.spec?.containers ?? []);
      const built = pulled.map(({ name }) => buildImageReference(name, { repository: "registry.example.com/muster" }));
      expect(built).toContain(`registry.example.com/muster/watcher:${version}`);
      expect(pulled.map(({ image }) => image)).toEqual(built);
    });

    it("names an image by its digest unless a tag replaces it, and refuses an invalid digest", async () => {
      const digest = `sha256:${"a".repeat(64)}`;
      const imageOf = async (tag: string) => {
        const objects = await renderChart("here", { "image.digests": { watcher: digest }, "image.tag": tag });
        const watcher = objects.filter(isDeployment).find(({ metadata }) => metadata?.name === "watcher");
        return watcher?.spec?.template.spec?.containers[0]?.image;
      };
      expect(await imageOf("")).toBe(`registry.example.com/muster/watcher@${digest}`);
      expect(await imageOf("mine")).toBe("registry.example.com/muster/watcher:mine");
      await expect(renderChart("here", { "image.digests": { watcher: "sha256:0" } })).rejects.toThrow("watcher");
    });

    it("tests an installation with the key of the command line, and opens NATS for that time only", async () => {
      const objects = (await renderChart("here")).filter(
        ({ metadata }) => metadata?.annotations?.["helm.sh/hook"] === "test",
      );
      expect(objects.map(({ kind, metadata }) => `${kind ?? ""} ${metadata?.name ?? ""}`).toSorted()).toEqual([
        "NetworkPolicy muster-test-egress",
        "NetworkPolicy muster-test-ingress",
        "Pod muster-test",
      ]);
      const pod = objects.find(({ kind }) => kind === "Pod") as V1Pod;
      const [container] = pod.spec?.containers ?? [];
      expect(container).toMatchObject({
        args: ["doctor"],
        image: buildImageReference("cli", { repository: "registry.example.com/muster" }),
      });
      const key = container?.env?.find(({ name }) => name === "MUSTER_NATS_NKEY")?.valueFrom?.secretKeyRef;
      expect(key).toEqual({ name: "muster-nats-nkeys", key: "cli.nk" });
      const policies = objects.filter(({ kind }) => kind === "NetworkPolicy");
      expect(policies.map(({ metadata }) => metadata?.annotations?.["helm.sh/hook-delete-policy"])).toEqual(
        policies.map(() => "before-hook-creation,hook-succeeded,hook-failed"),
      );
    });

    it("lets the job-controller change batch Jobs only on request, and only where it queues them", async () => {
      const batchRoles = async (batchJobs: string): Promise<readonly string[]> => {
        const objects = await renderChart("here", { "rights.batchJobs": batchJobs, workNamespace: "work" });
        const deployment = objects.filter(isDeployment).find(({ metadata }) => metadata?.name === "job-controller");
        const env = deployment?.spec?.template.spec?.containers[0]?.env ?? [];
        expect(env.find(({ name }) => name === "JOB_BATCH_JOBS")?.value).toBe(batchJobs);
        const roles = objects as readonly (KubeObject & { readonly rules?: readonly V1PolicyRule[] })[];
        return roles
          .filter(({ rules = [] }) => rules.some(({ apiGroups = [] }) => apiGroups.includes("batch")))
          .map(({ kind = "", metadata }) => `${kind} ${metadata?.namespace ?? ""}`.trim());
      };
      expect(await batchRoles("none")).toEqual([]);
      expect(await batchRoles("namespace")).toEqual(["Role work"]);
      expect(await batchRoles("all")).toEqual(["ClusterRole"]);
    });

    it("lets the job-controller run jobs of every namespace only on request", async () => {
      const rolesOfPods = async (jobNamespaces: string): Promise<readonly string[]> => {
        const values = { "rights.jobNamespaces": jobNamespaces, "rights.mpijobs": true, "rights.podGroups": true };
        const objects = await renderChart("here", values);
        const deployment = objects.filter(isDeployment).find(({ metadata }) => metadata?.name === "job-controller");
        const env = deployment?.spec?.template.spec?.containers[0]?.env ?? [];
        expect(env.find(({ name }) => name === "JOB_NAMESPACES")?.value).toBe(jobNamespaces);
        return objects
          .filter(({ kind }) => kind === "ClusterRole")
          .flatMap(({ metadata }) => metadata?.name ?? "")
          .filter((name) => name.startsWith("muster-job-controller-namespaces"))
          .toSorted();
      };
      expect(await rolesOfPods("own")).toEqual([]);
      expect(await rolesOfPods("all")).toEqual([
        "muster-job-controller-namespaces",
        "muster-job-controller-namespaces-mpijobs",
        "muster-job-controller-namespaces-pod-groups",
      ]);
    });

    it("lets the session-controller run sessions of every namespace only on request", async () => {
      for (const namespaces of ["own", "all"]) {
        const objects = await renderChart("here", { "rights.sessionNamespaces": namespaces });
        const deployment = objects.filter(isDeployment).find(({ metadata }) => metadata?.name === "session-controller");
        const env = deployment?.spec?.template.spec?.containers[0]?.env ?? [];
        expect(env.find(({ name }) => name === "SESSION_NAMESPACES")?.value).toBe(namespaces);
        const roles = objects.filter(({ metadata }) => metadata?.name === "muster-session-controller-namespaces");
        const kinds = roles.map(({ kind }) => kind).toSorted();
        expect(kinds).toEqual(namespaces === "all" ? ["ClusterRole", "ClusterRoleBinding"] : []);
      }
    });

    it("installs rights on nodes or namespaces of the whole cluster only on request, and shows how", async () => {
      const installed = (objects: readonly KubeObject[]) =>
        objects
          .filter(isDeployment)
          .map(({ metadata }) => metadata?.name)
          .toSorted();
      const standard = await renderChart("here");
      expect(installed(standard)).toEqual(SERVICES.filter((name) => !OPT_IN.includes(name)).toSorted());
      const roles = standard.filter(({ kind }) => kind === "ClusterRole") as { rules?: V1PolicyRule[] }[];
      const changed = roles
        .flatMap(({ rules = [] }) => rules)
        .filter(({ verbs }) => verbs.some((verb) => /^(?:\*|create|update|patch|delete)/.test(verb)))
        .flatMap(({ resources = [] }) => resources);
      expect(changed).toEqual(expect.not.arrayContaining(["namespaces"]));
      expect(changed).toEqual(expect.not.arrayContaining(["nodes"]));
      const notes = (values: object) =>
        runHelm([
          "install",
          "muster",
          CHART,
          "--dry-run=client",
          "--namespace",
          "here",
          ...buildValueArguments(values),
        ]);
      for (const name of OPT_IN) {
        const enable = `services.${name}.enabled=true`;
        expect(await notes({})).toContain(enable);
        expect(await notes({ [`services.${name}.enabled`]: true })).not.toContain(enable);
      }
      await expect(renderChart("here", { "rights.slices": true })).rejects.toThrow(
        /rights.slices .* services.provision-engine.enabled=true/,
      );
    });

    it("shows how to get the command line without a clone, from an image of the installation", async () => {
      const notes = await runHelm([
        "install",
        "muster",
        CHART,
        "--dry-run=client",
        "--namespace",
        "here",
        ...buildValueArguments({}),
      ]);
      expect(notes).toMatch(
        /alias muster='docker run [^']* registry\.example\.com\/muster\/cli:[\d.]+'\n {2}muster doctor/,
      );
    });

    it("refuses to run the services in the namespace of the work", async () => {
      const refusal = /workNamespace is "default", and so is the namespace of this release.*--namespace muster-system/;
      await expect(renderChart("default")).rejects.toThrow(refusal);
      await expect(renderChart("here", { workNamespace: "here" })).rejects.toThrow(/workNamespace is "here"/);
      const named = renderChart("muster-system", { workNamespace: "muster-system" });
      await expect(named).rejects.toThrow(/Set workNamespace to the namespace/);
    });

    it("refuses a JetStream limit below the storage that all services reserve", async () => {
      const little = { "nats.maxFileStore": "4GB" };
      const all = { ...little, "services.provision-engine.enabled": true };
      await expect(renderChart("here", all)).rejects.toThrow(/nats.maxFileStore is 4GB.*at least 5.4GB/);
      await renderChart("here", little);
    });

    it(
      "reports an incomplete chart where a file is missing, is empty, or is a link that became text",
      { timeout: 60_000 },
      async () => {
        await using directory = await mkdtempDisposable(join(tmpdir(), "muster-chart-"));
        const copy = join(directory.path, "muster");
        await cp(CHART, copy, { recursive: true, dereference: true });
        const files = (await readdir(join(copy, "files"), { recursive: true })).filter((name) => /\.\w+$/.test(name));
        // Only the local stack installs the definitions of Kubeflow's kinds, and an administrator the policy that suspends Jobs.
        const unused =
          /compose\.conf$|(namespace|batch-jobs-suspend|prometheus.compose|kubeflow\.org_(mpi|pytorch|tf)jobs)\.yaml$/;
        // Rights in every namespace replace those in one.
        const replaced = /rights\/(mpijobs|pod-groups)\.yaml$/;
        const used = files.filter((name) => !unused.test(name) && !replaced.test(name));
        expect(used.length).toBeGreaterThan(15);
        expect(await renderChart("here", ALL, copy)).toEqual(await renderChart("here", ALL));
        for (const [index, name] of used.entries()) {
          const file = join(copy, "files", name);
          const text = await readFile(file, "utf8");
          if (index % 3 === 0) await rm(file);
          else await writeFile(file, index % 3 === 1 ? "\n" : `../../../${name}`);
          await expect(renderChart("here", ALL, copy), name).rejects.toThrow(
            `incomplete: files/${name} is missing or empty`,
          );
          await writeFile(file, text);
        }
      },
    );

    it.each([
      [{}, true],
      [{ "nats.maxFileStore": "9GB" }, true],
      [{ "nats.maxFileStore": "10GB" }, false],
      [{ "nats.persistence.size": "5Gi" }, false],
      [{ "nats.persistence.size": "8G" }, false],
      [{ "nats.persistence.size": "0.5Ti", "nats.maxFileStore": "400GB" }, true],
      [{ "nats.persistence.size": 20000000000 }, true],
      [{ "nats.persistence.size": "5Gi", "nats.persistence.enabled": false }, true],
    ])("limits JetStream to the size of its volume: %j", async (values, fits) => {
      const rendered = renderChart("here", values);
      if (fits) expect((await rendered).length).toBeGreaterThan(0);
      else await expect(rendered).rejects.toThrow(/nats.maxFileStore is .*, of nats.persistence.size/);
    });

    it("alerts on missing metrics of the installed services only", async () => {
      const missed = async (values: object) => {
        const monitoring = { prometheusRule: { enabled: true } };
        const objects = await renderChart("here", { monitoring, ...values });
        const file = objects.find(({ kind }) => kind === "PrometheusRule") as KubeObject & { spec: RulesFile };
        const shared = parse(await readFile(join(ROOT, "deploy/prometheus/rules.yaml"), "utf8")) as RulesFile;
        const rulesOf = ({ groups }: RulesFile) => groups.flatMap(({ rules }) => rules);
        const others = (from: RulesFile) => rulesOf(from).filter(({ alert }) => alert !== "MusterServiceMissing");
        expect(others(file.spec)).toEqual(others(shared));
        const { expr } = rulesOf(file.spec).find(({ alert }) => alert === "MusterServiceMissing") ?? {};
        if (expr === undefined) return undefined;
        expect(expr.replaceAll(/absent\(target_info\{service_name="[a-z-]+"\}\)/g, "x")).toMatch(/^x( or x)*$/);
        return [...expr.matchAll(/service_name="([a-z-]+)"/g)].map(([, name]) => name);
      };
      const standard = SERVICES.filter((name) => !OPT_IN.includes(name)).toSorted();
      expect(await missed({})).toEqual(standard);
      const enabled = Object.fromEntries(OPT_IN.map((name) => [`services.${name}.enabled`, true]));
      expect(await missed(enabled)).toEqual([...SERVICES].toSorted());
      const without = standard.filter((name) => name !== "job-controller");
      expect(await missed({ "services.job-controller.enabled": false })).toEqual(without);
      // Prometheus refuses an expression without a service.
      const none = Object.fromEntries(standard.map((name) => [`services.${name}.enabled`, false]));
      expect(await missed(none)).toBeUndefined();
    });

    it("opens the monitoring port of NATS to the readers of metrics, and to no pod where none are named", async () => {
      const readers = async (metricsFrom: readonly object[]) => {
        const objects = await renderChart("here", { networkPolicy: { metricsFrom } });
        const policy = objects.find(({ kind, metadata }) => kind === "NetworkPolicy" && metadata?.name === "nats");
        const { ingress = [] } = (policy as V1NetworkPolicy).spec ?? {};
        return ingress
          .filter(({ ports = [] }) => ports.some(({ port }) => port === "monitor"))
          .map((rule) => (rule as { from?: readonly object[] }).from);
      };
      expect(await readers([])).toEqual([]);
      const prometheus = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "monitoring" } } };
      expect(await readers([prometheus])).toEqual([[prometheus]]);
    });

    it("serves the HTTP API in plain text for an ingress, or with the certificate of a Secret, to those who may connect", async () => {
      const plain = await gatewayOf({});
      expect(plain.env).toMatchObject({ GATEWAY_ADDR: "0.0.0.0:8480", GATEWAY_PLAIN_HTTP: "true" });
      expect(plain).toMatchObject({ replicas: 2, port: 80, routes: [], volumes: ["tmp", "nats-ca", "session"] });
      expect(plain.from).toBeUndefined();
      const ingress = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "ingress" } } };
      const secured = await gatewayOf({ ...ALL, "networkPolicy.gatewayFrom": [ingress] });
      expect(secured.env).not.toHaveProperty("GATEWAY_PLAIN_HTTP");
      expect(secured.env).toMatchObject({
        GATEWAY_TLS_CERT_FILE: "/etc/muster-tls/tls.crt",
        GATEWAY_TLS_KEY_FILE: "/etc/muster-tls/tls.key",
      });
      expect(secured).toMatchObject({ port: 443, from: [ingress], volumes: ["tmp", "nats-ca", "session", "tls"] });
      expect(secured.routes).toEqual(["HTTPRoute", "Ingress"]);
      const without = await renderChart("here", { ...ALL, "services.gateway.enabled": false });
      const routed = without.filter(({ kind = "" }) => ["Service", "Ingress", "HTTPRoute"].includes(kind));
      expect(routed.filter(({ metadata }) => /^(muster|gateway)$/.test(metadata?.name ?? ""))).toEqual([]);
    });

    it("gives all replicas of the gateway the keys of browser sessions of one Secret", async () => {
      const ours = await gatewayOf({});
      expect(ours.env).toMatchObject({ GATEWAY_SESSION_KEY_FILE: "/etc/muster-session/session-keys" });
      expect(ours.mounts).toMatchObject({ session: "/etc/muster-session" });
      // The gateway refuses a file that others can read.
      expect(ours.sessionKeys).toEqual({ secretName: "muster-gateway-session", defaultMode: 0o440 });
      expect(ours.fsGroup).toBe(1000);
      const own = await gatewayOf({ "gateway.sessionKeysSecret": "own" });
      expect(own.sessionKeys).toMatchObject({ secretName: "own" });
      await expect(renderChart("here", { "gateway.sessionKeysSecret": "" })).rejects.toThrow(
        /don't meet the specifications/,
      );
    });

    it("does not touch the keys and the authority of an external NATS", async () => {
      const external = { "nats.enabled": false, "nats.url": "tls://nats.example.org:4222" };
      const rightsOf = (objects: readonly KubeObject[]): string =>
        JSON.stringify(objects.find((each) => each.kind === "Role" && each.metadata?.name === "muster-keys"));
      const commandOf = (objects: readonly KubeObject[]): string =>
        JSON.stringify(objects.find((each) => each.kind === "Job" && each.metadata?.name === "keys"));
      const ours = await renderChart("here");
      const theirs = await renderChart("here", external);
      expect(rightsOf(ours)).toContain("muster-nats-ca");
      expect(rightsOf(theirs)).toContain("muster-provision-engine");
      expect(rightsOf(theirs)).not.toMatch(/configmaps|muster-nats/);
      expect(commandOf(ours)).toContain("users.conf");
      expect(commandOf(theirs)).not.toContain("users.conf");
      const authorityOf = (objects: readonly KubeObject[]) =>
        objects.filter(isDeployment).flatMap(({ spec }) => {
          const volumes = spec?.template.spec?.volumes ?? [];
          return volumes.filter(({ name }) => name === "nats-ca").map(({ configMap }) => configMap?.name);
        });
      expect(new Set(authorityOf(ours))).toEqual(new Set(["muster-nats-ca"]));
      expect(authorityOf(theirs)).toEqual([]);
      const named = await renderChart("here", { ...external, "nats.caConfigMap": "nats-authority" });
      expect(new Set(authorityOf(named))).toEqual(new Set(["nats-authority"]));
    });

    it("gives each service the seed of its own user, and only variables that it knows", async () => {
      const deployments = (await renderChart("here", ALL)).filter(isDeployment);
      expect(deployments.map(({ metadata }) => metadata?.name).sort()).toEqual([...SERVICES].sort());
      const page = await readFile(join(ROOT, "docs/reference/environment.md"), "utf8");
      const [, known = ""] = page.split("\n## ");
      for (const { metadata, spec } of deployments) {
        const name = metadata?.name ?? "";
        const config = await readFile(join(ROOT, `apps/${name}/src/config.ts`), "utf8");
        const env = spec?.template.spec?.containers[0]?.env ?? [];
        for (const { name: variable, valueFrom } of env) {
          const isCommon = variable.startsWith("OTEL_") || known.includes(`\`${variable}\``);
          expect(isCommon || config.includes(`"${variable}"`), `${name}: ${variable}`).toBe(true);
          if (variable === "MUSTER_NATS_NKEY") expect(valueFrom?.secretKeyRef?.key).toBe(`${name}.nk`);
        }
      }
    });

    it("renders a configuration that nats-server accepts, for one server and for three", async () => {
      const directory = await mkdtemp(join(tmpdir(), "muster-chart-"));
      try {
        const authority = await makeCertificateAuthority("test");
        const made = await makeSignedCertificate(authority, { commonName: "nats", use: "server" });
        await writeFile(join(directory, "tls.crt"), made.cert);
        await writeFile(join(directory, "ca.crt"), authority.cert);
        await writeFile(join(directory, "tls.key"), made.key);
        const { path } = await findNatsServer({ env: buildProcessEnv() });
        const keys = NATS_USERS.map((user) => [buildKeyVariable(user), makeNkey().publicKey] as const);
        const env = { ...buildProcessEnv(), POD_NAME: "nats-0", ...Object.fromEntries(keys) };
        for (const [replicas, syncs] of [[1], [3], [3, "1s"]] as const) {
          const sync = syncs === undefined ? {} : { "nats.syncInterval": syncs };
          const objects = await renderChart("here", { "nats.replicas": replicas, "nats.maxFileStore": "7GB", ...sync });
          const config = objects.find(
            (each): each is V1ConfigMap => each.kind === "ConfigMap" && placeOf(each) === "here/nats",
          );
          for (const [file, text] of Object.entries(config?.data ?? {})) {
            const here = text.replaceAll("/etc/nats-tls/", `${directory}/`).replace("/data", join(directory, "data"));
            await writeFile(join(directory, file), here);
          }
          const conf = config?.data?.["nats.conf"] ?? "";
          expect(conf).toContain("max_file_store: 7GB");
          expect(/^ *sync_interval: .*$/m.exec(conf)?.[0].trim()).toBe(`sync_interval: "${syncs ?? "always"}"`);
          if (replicas === 3) expect(conf).toContain("ca_file: /etc/nats-tls/ca.crt");
          const { stderr } = await promisify(execFile)(path, ["-t", "-c", join(directory, "nats.conf")], { env });
          expect(stderr).toContain("is valid");
        }
      } finally {
        await rm(directory, { recursive: true, force: true });
      }
    });
  },
);

/** Renders how the chart with these values serves the HTTP API. */
async function gatewayOf(values: object) {
  const objects = await renderChart("here", values);
  const named = (kind: string, name: string) =>
    objects.find((object) => object.kind === kind && object.metadata?.name === name);
  const { replicas, template } = (named("Deployment", "gateway") as V1Deployment).spec ?? {};
  const [container] = template?.spec?.containers ?? [];
  const [rule] = (named("NetworkPolicy", "gateway") as V1NetworkPolicy).spec?.ingress ?? [];
  return {
    replicas,
    env: Object.fromEntries(container?.env?.map(({ name, value }) => [name, value]) ?? []),
    volumes: template?.spec?.volumes?.map(({ name }) => name),
    mounts: Object.fromEntries(container?.volumeMounts?.map(({ name, mountPath }) => [name, mountPath]) ?? []),
    sessionKeys: template?.spec?.volumes?.find(({ name }) => name === "session")?.secret,
    fsGroup: template?.spec?.securityContext?.fsGroup,
    port: (named("Service", "muster") as V1Service).spec?.ports?.[0]?.port,
    // The client of Kubernetes renames the field.
    from: (rule as { readonly from?: readonly object[] } | undefined)?.from,
    routes: objects.flatMap(({ kind = "" }) => (kind === "Ingress" || kind === "HTTPRoute" ? [kind] : [])).toSorted(),
  };
}

/** The paths of the leaf values. */
function leavesOf(values: object): readonly string[] {
  return Object.entries(values).flatMap(([name, value]: [string, unknown]) => {
    const isLeaf =
      typeof value !== "object" || value === null || Array.isArray(value) || Object.keys(value).length === 0;
    return isLeaf ? [name] : leavesOf(value).map((inner) => `${name}.${inner}`);
  });
}

function isDeployment(object: KubeObject): object is V1Deployment {
  return object.kind === "Deployment";
}

function placeOf({ metadata }: KubeObject): string {
  return `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}
