import { isSealed, mapSecrets, type Order, type Result } from "@muster/leases";

/** Formats the data of an order for people; a sealed value shows its recipient. */
export function showOrderData({ type, data, engine }: Pick<Order, "type" | "data" | "engine">): string {
  return mapSecrets({ kind: "order", type, data }, (secret) =>
    isSealed(secret) ? `(sealed for engine ${engine})` : secret,
  );
}

/** Formats the data of a result. A sealed secret shows the command that decrypts it. */
export function showResultData({ user }: Pick<Order, "user">, { type, data }: Pick<Result, "type" | "data">): string {
  return mapSecrets({ kind: "result", type, data }, (secret, field) =>
    isSealed(secret) ? `(sealed for user ${user}; \`muster lease get ID --secret ${field}\` opens it)` : secret,
  );
}

/** Returns names of the sealed values in the data of an order. */
export function listSealedFields({ type, data }: Pick<Order, "type" | "data">): string[] {
  const fields: string[] = [];
  mapSecrets({ kind: "order", type, data }, (secret, field) => {
    if (isSealed(secret)) fields.push(field);
    return secret;
  });
  return fields;
}
