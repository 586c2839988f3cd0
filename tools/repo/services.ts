import { serviceNames } from "@muster/proto";

export const SERVICES = serviceNames;

export type ServiceName = (typeof SERVICES)[number];

/** Services with rights on nodes or namespaces of the whole cluster. The chart installs them only on request. */
export const OPT_IN: readonly ServiceName[] = ["node-scaler", "provision-engine"];

/** The service that is only needed where Muster creates machines. */
export const OPTIONAL: ServiceName = "node-scaler";

/** The services of every installation. */
export const STANDARD: readonly ServiceName[] = SERVICES.filter((name) => name !== OPTIONAL);
