/*
 * publish.h - statistics for whoever wants to listen: a ZeroMQ PUB socket.
 *
 * A message is two frames, a topic "stats:NAME:" or "event:NAME:" (NAME is the job's) and one line
 * of JSON (sluice.stats/1, sluice.event/1), so that a subscriber needs nothing of this project. The
 * publisher never waits: a subscriber that does not read loses messages, and libzmq cuts it off.
 */
#ifndef SL_BUS_PUBLISH_H
#define SL_BUS_PUBLISH_H

struct sl_curve;
struct sl_publisher;

// endpoint: ipc://<path>. Removes a socket file that a dead process left.
int sl_publisher_bind(const char *endpoint, struct sl_publisher **out);
int sl_publisher_add_tcp(struct sl_publisher *p, const char *endpoint, const struct sl_curve *keys);
void sl_publisher_close(struct sl_publisher *p); // NULL is fine

// kind: "stats" or "event". Never waits, never fails.
void sl_publisher_send(struct sl_publisher *p, const char *kind, const char *job, const char *json);

#endif
