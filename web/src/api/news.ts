/** What is newer where installed skills came from, and whether the webhook takes notifications. */
import { answer, api } from "./client";

export const lookForUpdates = () => answer(api.POST("/api/v1/skill-definitions/updates"));

/** Try the webhook of the server's settings. */
export const tryWebhook = () => answer(api.POST("/api/v1/notifications/test"));
