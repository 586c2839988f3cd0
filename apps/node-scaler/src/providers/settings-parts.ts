import { z } from "zod";

/** Distinguishes the instances of one scaler from those of others: valid as a label, a tag and an annotation. */
export const controllerName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, "has to be lower case letters, digits and dashes, 63 at most");

export const kubernetesName = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, "has to be the name of a Kubernetes object");
