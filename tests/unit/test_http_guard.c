// Who may ask the HTTP server: addresses, Host, Origin, token.
#include <arpa/inet.h>

#include "broker/http/guard.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

static const char *path(void)
{
    return in_dir("token");
}

static void write_token(const char *text, mode_t mode)
{
    write_text("token", text);
    ck_assert_int_eq(chmod(path(), mode), 0);
}

CASE(.name = "address, Host, Origin", .timeout_s = 60)

TEST(ports_and_loopback_addresses_are_taken)
{
    struct sl_guard_address a;
    ck_assert_int_eq(sl_guard_parse_listen("8080", &a), SL_OK);
    ck_assert_int_eq(a.at.any.sa_family, AF_INET);
    ck_assert_uint_eq(ntohs(a.at.v4.sin_port), 8080);
    ck_assert_uint_eq(ntohl(a.at.v4.sin_addr.s_addr), INADDR_LOOPBACK);
    ck_assert_int_eq(sl_guard_parse_listen("0", &a), SL_OK);
    ck_assert_uint_eq(ntohs(a.at.v4.sin_port), 0);
    ck_assert_int_eq(sl_guard_parse_listen("localhost:65535", &a), SL_OK);
    ck_assert_uint_eq(ntohs(a.at.v4.sin_port), 65535);
    ck_assert_int_eq(sl_guard_parse_listen("[::1]:1", &a), SL_OK);
    ck_assert_int_eq(a.at.any.sa_family, AF_INET6);
    ck_assert_str_eq(a.host, "[::1]");
}

TEST(other_addresses_are_refused_with_the_way_to_do_it)
{
    static const char *const others[] = {
        "0.0.0.0:8080",        "192.168.1.4:80", "[::]:80", "example.org:8080",
        "127.0.0.1.nip.io:80", "*:80",           ":80"};
    struct sl_guard_address a;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ck_assert_int_eq(sl_guard_parse_listen(others[i], &a), SL_EINVAL);
        ck_assert_ptr_nonnull(strstr(sl_error_message(), others[i]));
        ck_assert_ptr_nonnull(strstr(sl_error_message(), "ssh -L"));
    }
}

TEST(what_is_no_port_is_refused)
{
    static const char *const bad[] = {"",    "x",      "-1",  "65536",        "80 ",
                                      "8o8", "+80",    " 80", "127.0.0.1:",   "127.0.0.1:x",
                                      "1e3", "0x1f90", "::1", "localhost:-1", "99999999999999999"};
    struct sl_guard_address a;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(sl_guard_parse_listen(bad[i], &a) == SL_EINVAL, "'%s' was taken", bad[i]);
}

TEST(hosts_that_name_this_machine_are_ours)
{
    ck_assert(sl_guard_host_is_ours("127.0.0.1:8080"));
    ck_assert(sl_guard_host_is_ours("127.0.0.1"));
    ck_assert(sl_guard_host_is_ours("LocalHost:1"));
    ck_assert(sl_guard_host_is_ours("[::1]:8080"));
}

TEST(other_hosts_are_not)
{
    static const char *const others[] = {"",
                                         "example.org",
                                         "127.0.0.1.example.org",
                                         "localhost.example.org:8080",
                                         "127.0.0.2",
                                         "127.0.0.1:8080x",
                                         "127.0.0.1:",
                                         "127.0.0.1@example.org",
                                         "::1",
                                         "[::1].example.org",
                                         "localhost:99999",
                                         "xlocalhost"};
    ck_assert(!sl_guard_host_is_ours(NULL));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!sl_guard_host_is_ours(others[i]), "'%s' was taken", others[i]);
}

TEST(an_origin_must_be_the_host)
{
    ck_assert(sl_guard_origin_is_ours(NULL, "127.0.0.1:8080"));
    ck_assert(sl_guard_origin_is_ours("http://127.0.0.1:8080", "127.0.0.1:8080"));
    ck_assert(sl_guard_origin_is_ours("HTTP://localhost:80", "LOCALHOST:80"));
    ck_assert(!sl_guard_origin_is_ours("http://127.0.0.1:3000", "127.0.0.1:8080"));
    ck_assert(!sl_guard_origin_is_ours("http://localhost:8080", "127.0.0.1:8080"));
    ck_assert(!sl_guard_origin_is_ours("https://127.0.0.1:8080", "127.0.0.1:8080"));
    ck_assert(!sl_guard_origin_is_ours("null", "127.0.0.1:8080"));
    ck_assert(!sl_guard_origin_is_ours("", "127.0.0.1:8080"));
    ck_assert(!sl_guard_origin_is_ours("http://127.0.0.1:8080", NULL));
}

CASE(.name = "token", IN_A_DIRECTORY, .timeout_s = 60)

TEST(the_token_is_the_first_line)
{
    struct sl_guard_token token;
    write_token("open-sesame\nand a comment\n", 0600);
    ck_assert_msg(sl_guard_read_token(path(), &token) == SL_OK, "%s", sl_error_message());
    ck_assert(sl_guard_token_fits(&token, "Bearer open-sesame"));
    ck_assert(sl_guard_token_fits(&token, "bearer  open-sesame"));
    ck_assert(!sl_guard_token_fits(&token, NULL));
    ck_assert(!sl_guard_token_fits(&token, ""));
    ck_assert(!sl_guard_token_fits(&token, "Bearer"));
    ck_assert(!sl_guard_token_fits(&token, "Bearer "));
    ck_assert(!sl_guard_token_fits(&token, "open-sesame"));
    ck_assert(!sl_guard_token_fits(&token, "Basic open-sesame"));
    ck_assert(!sl_guard_token_fits(&token, "Bearer open-sesame "));
    ck_assert(!sl_guard_token_fits(&token, "Bearer open-sesamf"));
    ck_assert(!sl_guard_token_fits(&token, "Bearer open-sesam"));
}

TEST(a_token_without_a_line_end_is_read)
{
    struct sl_guard_token token;
    write_token("12345678", 0600);
    ck_assert_int_eq(sl_guard_read_token(path(), &token), SL_OK);
    ck_assert(sl_guard_token_fits(&token, "Bearer 12345678"));
}

TEST(a_file_that_is_not_there_is_made)
{
    struct sl_guard_token token;
    struct stat st;
    char line[128], header[160];
    ck_assert_int_eq(sl_guard_read_token(path(), &token), SL_OK);
    ck_assert_int_eq(stat(path(), &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    FILE *f = fopen(path(), "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    fclose(f);
    ck_assert_uint_eq(strcspn(line, "\n"), 48);
    snprintf(header, sizeof header, "Bearer %.48s", line);
    ck_assert(sl_guard_token_fits(&token, header));
}

TEST(bad_token_files_are_refused)
{
    struct sl_guard_token token;
    char text[SL_GUARD_TOKEN_MAX + 3];
    write_token("", 0600);
    ck_assert_int_eq(sl_guard_read_token(path(), &token), SL_EACCESS);
    write_token("1234567\n", 0600);
    ck_assert_int_eq(sl_guard_read_token(path(), &token), SL_EACCESS);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "7 characters"));
    write_token("two words here\n", 0600);
    ck_assert_int_eq(sl_guard_read_token(path(), &token), SL_EACCESS);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "character 4"));
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    write_token(text, 0600);
    ck_assert_int_eq(sl_guard_read_token(path(), &token), SL_EACCESS);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "more than"));
    text[SL_GUARD_TOKEN_MAX] = '\0';
    write_token(text, 0600);
    ck_assert_int_eq(sl_guard_read_token(path(), &token), SL_OK);
    write_token("open-sesame\n", 0666);
    ck_assert_int_eq(sl_guard_read_token(path(), &token), SL_EACCESS);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "chmod 600"));
}

TEST(a_folder_is_no_token_and_a_missing_folder_is_named)
{
    struct sl_guard_token token;
    const char *deep = in_dir("no/such/token");
    ck_assert_int_eq(sl_guard_read_token(dir, &token), SL_EACCESS);
    ck_assert_int_eq(sl_guard_read_token(deep, &token), SL_EACCESS);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), deep));
}

RUN_TESTS()
