import { connectService, serveMethods } from "@muster/bus";
import { loadServiceKube } from "@muster/kube";
import { WatchService } from "@muster/proto";
import { runService } from "@muster/service";
import { openWatcher } from "./adapters/deps.ts";
import { readConfig, type Config } from "./config.ts";
import { keepPublished } from "./keep-published.ts";

await runService<Config>({
  name: "watcher",
  readConfig,
  run: async (context) => {
    const { config, logger, signal, version, readyWhen } = context;
    await using bus = await connectService(context);
    await using watcher = await openWatcher(config, {
      kube: loadServiceKube(context, config.kube.kubeconfig),
      bus,
      logger,
    });
    readyWhen("view", watcher.notReady);
    await using _served = await serveMethods(
      bus,
      WatchService,
      { getStatus: () => Promise.resolve(watcher.status()) },
      {
        version,
        description: "The view of pods and nodes.",
        onDefect: (method, error) => logger.error({ err: error, method }, "a request met a defect"),
      },
    );
    await keepPublished(watcher.deps, config.policy, signal);
  },
});
